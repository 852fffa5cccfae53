package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/headroom-quota/headroom/internal/pattern"
	windows "github.com/headroom-quota/headroom/quota/window"
)

// node is a value of a document whose form is not known beforehand.
type node map[string]any

func (n node) get(key string) node {
	m, _ := n[key].(map[string]any)
	return m
}

func (n node) text(key string) string {
	s, _ := n[key].(string)
	return s
}

func (n node) list(key string) (all []node) {
	items, _ := n[key].([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		all = append(all, m)
	}
	return all
}

// keys are in order, so that a draft is the same each time.
func (n node) keys() []string { return slices.Sorted(maps.Keys(n)) }

func decode(text []byte, into any) error {
	if first := bytes.TrimSpace(text); len(first) > 0 && (first[0] == '{' || first[0] == '[') && json.Unmarshal(text, into) == nil {
		return nil
	}
	return yaml.Unmarshal(text, into)
}

// number reads a number in any of its forms, or -1.
func number(v any) int64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.Split(fmt.Sprint(v), "/")[0]), 64)
	if err != nil || n < 1 || n > windows.MaxUnits {
		return -1
	}
	return int64(n)
}

// OpenAPI reads a description of an API: version 2.0, 3.0 or 3.1. Without a server in it, the
// API is at the only host that is known so far.
func (d *Draft) OpenAPI(from string, text []byte) error {
	var doc node
	if err := decode(text, &doc); err != nil {
		return fmt.Errorf("is neither JSON nor YAML: %w", err)
	}
	if doc["openapi"] == nil && doc["swagger"] == nil {
		return errors.New("is no OpenAPI document: it has neither openapi nor swagger")
	}
	host, base := server(doc)
	if host = plainHost(host); host == "" && len(d.upstreams) == 1 {
		for host = range d.upstreams {
		}
	}
	if host == "" {
		return errors.New("names no server with a host\nName it with --host")
	}
	u := d.of(host, from)
	schemes := doc.get("components").get("securitySchemes")
	if schemes == nil {
		schemes = doc.get("securityDefinitions")
	}
	for _, name := range schemes.keys() {
		s := doc.resolve(schemes.get(name))
		k := APIKey{from: from + ": the security scheme " + name}
		switch where := s.text("in"); {
		case s.text("type") == "apiKey" && where == "header":
			k.header = s.text("name")
		case s.text("type") == "apiKey" && where == "query":
			k.query = s.text("name")
		case s.text("type") == "http", s.text("type") == "oauth2", s.text("type") == "basic", s.text("type") == "openIdConnect":
			k.header = "Authorization"
		}
		if u.key.header == "" && (k.header != "" || u.key.query == "" && k.query != "") {
			k.query = cmp.Or(k.query, u.key.query)
			u.key = k
		} else if k.header != "" && k.header != u.key.header {
			u.noteOnce(fmt.Sprintf("%s has its key in the header %s; the draft has %s", k.from, k.header, u.key.header))
		}
	}
	u.extensions(doc, from, "the document")
	u.extensions(doc.get("info"), from, "info")
	for _, path := range doc.get("paths").keys() {
		item := doc.resolve(doc.get("paths").get(path))
		u.extensions(item, from, path)
		for _, verb := range item.keys() {
			upper := strings.ToUpper(verb)
			if !slices.Contains([]string{"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"}, upper) {
				continue
			}
			op := item.get(verb)
			path, _, _ := strings.Cut(path, "?")
			r := u.route(upper, strings.TrimSuffix(base, "/")+path, from)
			r.name = cmp.Or(r.name, op.text("operationId"))
			u.extensions(op, from, upper+" "+path)
			if answer := doc.resolve(op.get("responses").get("429")); answer != nil {
				u.refusals[429] = from + ": " + upper + " " + path + " documents 429"
				u.documented(answer.get("headers"), from)
			}
		}
	}
	return nil
}

// server returns the host and the base path of the first server.
func server(doc node) (host, base string) {
	if doc["swagger"] != nil {
		return doc.text("host"), doc.text("basePath")
	}
	for _, s := range doc.list("servers") {
		text := s.text("url")
		for _, name := range s.get("variables").keys() {
			text = strings.ReplaceAll(text, "{"+name+"}", s.get("variables").get(name).text("default"))
		}
		if u, err := url.Parse(text); err == nil && (u.Host != "" || host == "") {
			if host, base = u.Host, u.Path; host != "" {
				return host, base
			}
		}
	}
	return host, base
}

func (n node) resolve(at node) node {
	for range 8 {
		ref, is := strings.CutPrefix(at.text("$ref"), "#/")
		if !is {
			return at
		}
		at = n
		for part := range strings.SplitSeq(ref, "/") {
			at = at.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		}
	}
	return nil
}

// documented notes the headers about limits of a documented answer: their values are not known.
func (u *upstream) documented(headers node, from string) {
	for _, name := range headers.keys() {
		if role, _, _ := roleOf(name); role != "" {
			u.noteOnce(fmt.Sprintf("%s documents the header %s; record a call, and the draft has its feedback", from, name))
		}
	}
}

func (u *upstream) noteOnce(text string) {
	if !slices.Contains(u.notes, text) {
		u.notes = append(u.notes, text)
	}
}

var limitExtension = pattern.Of(`(?i)^x-.*(rate-?limit|throttl|quota)`)

// extensions reads limits in extensions, whose forms differ: a number and a window under any of
// the usual names.
func (u *upstream) extensions(at node, from, where string) {
	for _, name := range at.keys() {
		if !limitExtension().MatchString(name) {
			continue
		}
		var l limit
		fields, is := at[name].(map[string]any)
		if !is {
			fields = map[string]any{"limit": at[name]}
			if text, is := at[name].(string); is { // 100/minute
				if _, per, found := strings.Cut(text, "/"); found {
					fields["per"] = strings.TrimSpace(per)
				}
			}
		}
		for _, key := range node(fields).keys() {
			switch role := strings.ToLower(key); role {
			case "limit", "max", "requests", "quota", "rate", "calls", "count", "maxrequests", "max_requests":
				l.window.quota = max(l.window.quota, number(fields[key]))
			case "window", "interval", "per", "period", "timeframe", "time_window", "duration", "unit", "renewal-period", "renewalperiod", "windowseconds", "window_seconds":
				l.window.per = span(fields[key])
			}
		}
		if l.window.quota <= 0 || l.window.per <= 0 {
			if text := fmt.Sprintf("%s: %s is in a form that is not known; read it yourself, as at ", from, name); !slices.ContainsFunc(u.notes, func(n string) bool { return strings.HasPrefix(n, text) }) {
				u.notes = append(u.notes, text+where)
			}
			continue
		}
		l.from = fmt.Sprintf("%s: %s of %s", from, name, where)
		if where != "the document" && where != "info" {
			u.noteOnce(l.from + " is a limit of that call alone: at most " + l.window.String() + "; give it a pool of its own if it is lower than the others")
			continue
		}
		l.pool = "requests"
		u.limits = append(u.limits, l)
	}
}

// span reads the length of a window: a number of seconds, a duration or a word.
func span(v any) time.Duration {
	if text, is := v.(string); is {
		text = strings.ToLower(strings.TrimSpace(text))
		for word, d := range windowWords {
			if text == word || text == word+"s" || text == "1 "+word || text == word[:1] || text == "p1d" && word == "day" {
				return d
			}
		}
		if d, err := time.ParseDuration(strings.TrimPrefix(text, "pt")); err == nil {
			return d
		}
	}
	if n := number(v); n > 0 && n < int64(366*day/time.Second) {
		return time.Duration(n) * time.Second
	}
	return 0
}

// units are the pools of what API Commons counts.
var units = map[string]string{
	"request": "requests", "token": "tokens", "input-token": "input_tokens", "output-token": "output_tokens", "byte": "bytes", "connection": "at_once", "concurrent-request": "at_once",
}

// Commons reads limits in the form of API Commons: a list of them, or of properties that have
// them. All of its values are marked as not verified.
func (d *Draft) Commons(from string, text []byte) error {
	var all []map[string]any
	if err := decode(text, &all); err != nil {
		return errors.New("is no list of rate limits in the form of API Commons")
	}
	var entries []node
	for _, e := range all {
		if data := node(e).list("data"); data != nil {
			entries = append(entries, data...)
		} else {
			entries = append(entries, e)
		}
	}
	found := 0
	for _, e := range entries {
		l := limit{window: window{quota: number(e["limit"]), per: span(e["timeframe"])}, from: fmt.Sprintf("%s: %q", from, e.text("name"))}
		if e.text("timeframe") == "year" {
			l.window.per = 365 * day
		}
		l.pool = units[e.text("metric")]
		if l.pool == "" {
			l.pool = poolName(strings.ReplaceAll(e.text("metric"), "-", "_") + "s")
		}
		if l.window.quota <= 0 || l.window.per <= 0 {
			continue
		}
		found++
		l.window.atOnce = l.pool == "at_once"
		l.window.unsure = "not verified"
		if date := e.text("source_date"); date != "" {
			l.window.unsure = "not verified since " + date
		}
		if tier := e.text("tier"); tier != "" {
			l.from += ", tier " + tier
		}
		if kind := e.text("type"); kind == "Endpoint" || kind == "Model" || kind == "Resource" || kind == "User" && e.text("tier") == "" {
			d.note("%s is a limit of each %s alone: %s; give it a pool of its own", l.from, strings.ToLower(kind), l.window)
			continue
		}
		hosts, _ := e["domains"].([]any)
		for _, host := range hosts {
			if name, is := host.(string); is && plainHost(name) != "" {
				u := d.of(plainHost(name), from)
				u.limits = append(u.limits, l)
			}
		}
		if len(hosts) == 0 {
			d.homeless = append(d.homeless, l)
		}
	}
	if found == 0 {
		return errors.New("has no rate limit in the form of API Commons: a limit with metric and timeframe")
	}
	return nil
}
