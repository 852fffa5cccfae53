package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
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

// text returns a text, or a number as a text.
func (n node) text(key string) string {
	switch v := n[key].(type) {
	case nil, map[string]any, []any:
		return ""
	default:
		return fmt.Sprint(v)
	}
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

// documented notes the headers about limits of a documented answer: their values are not known.
func (u *upstream) documented(headers []string, from string) {
	for _, name := range headers {
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

// described is a description of an API, which may be in several files.
type described struct {
	files map[string]node // by their paths
	lost  error           // of the first reference that cannot be followed
}

// part is a part of a description, and the file that it is in.
type part struct {
	node
	file string
}

// OpenAPI reads a description of an API: version 2.0, 3.0 or 3.1. Without a server in it, the
// API is at the only host that is known so far. Its references may lead to other files.
func (d *Draft) OpenAPI(from string, text []byte) error {
	var fields node
	if err := decode(text, &fields); err != nil {
		return fmt.Errorf("is neither JSON nor YAML: %w", err)
	}
	if fields["openapi"] == nil && fields["swagger"] == nil {
		return errors.New("is no OpenAPI document: it has neither openapi nor swagger")
	}
	whole := part{fields, filepath.Join(d.Folder, from)}
	says := &described{files: map[string]node{whole.file: fields}}
	host, below := says.server(whole)
	if host = plainHost(host); host == "" && len(d.upstreams) == 1 {
		for host = range d.upstreams {
		}
	}
	if host == "" {
		return errors.New("names no server with a host\nName it with --host")
	}
	u := d.of(host, from)
	for _, schemes := range []part{says.get(says.get(whole, "components"), "securitySchemes"), says.get(whole, "securityDefinitions")} {
		for _, name := range schemes.keys() {
			u.secured(says.get(schemes, name).node, from+": the security scheme "+name)
		}
	}
	paths := says.get(whole, "paths")
	for _, path := range paths.keys() {
		u.extensions(says.get(paths, path).node, from, path)
	}
	u.extensions(fields.get("info"), from, "info")
	u.extensions(fields, from, "the document")
	for _, path := range paths.keys() {
		item := says.get(paths, path)
		path, _, _ := strings.Cut(path, "?")
		for _, name := range item.keys() {
			verb := strings.ToUpper(name)
			if !slices.Contains([]string{"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"}, verb) {
				continue
			}
			op := says.get(item, name)
			r := u.route(verb, strings.TrimSuffix(below, "/")+path, from)
			r.name = cmp.Or(r.name, op.text("operationId"))
			u.extensions(op.node, from, verb+" "+path)
			if slow := says.get(says.get(op, "responses"), "429"); slow.node != nil {
				u.refusals[429] = from + ": " + verb + " " + path + " documents 429"
				u.documented(says.get(slow, "headers").keys(), from)
			}
		}
	}
	if says.lost != nil {
		d.note("%s: a part of it cannot be read: %s", from, says.lost)
	}
	return nil
}

// secured notes where a security scheme has the key.
func (u *upstream) secured(scheme node, from string) {
	k := APIKey{from: from}
	switch kind, where := scheme.text("type"), scheme.text("in"); {
	case kind == "apiKey" && where == "header":
		k.header = scheme.text("name")
	case kind == "apiKey" && where == "query":
		k.query = scheme.text("name")
	case slices.Contains([]string{"http", "oauth2", "basic", "openIdConnect"}, kind):
		k.header = "Authorization"
	}
	if u.key.header == "" && (k.header != "" || u.key.query == "" && k.query != "") {
		k.query = cmp.Or(k.query, u.key.query)
		u.key = k
	} else if k.header != "" && k.header != u.key.header {
		u.noteOnce(fmt.Sprintf("%s has its key in the header %s; the draft has %s", k.from, k.header, u.key.header))
	}
}

// server returns the host and the base path of the first server.
func (d *described) server(whole part) (host, below string) {
	if whole.node["swagger"] != nil {
		return whole.text("host"), whole.text("basePath")
	}
	for _, s := range whole.list("servers") {
		text, variables := s.text("url"), s.get("variables")
		for _, name := range variables.keys() {
			text = strings.ReplaceAll(text, "{"+name+"}", variables.get(name).text("default"))
		}
		if u, err := url.Parse(text); err == nil && (u.Host != "" || host == "") {
			if host, below = u.Host, u.Path; host != "" {
				break
			}
		}
	}
	return host, below
}

// get returns the value of a key, or the value to which its reference leads.
func (d *described) get(in part, key string) part {
	at, err := part{in.get(key), in.file}, error(nil)
	for range 16 {
		ref := at.text("$ref")
		if ref == "" {
			return at
		}
		if at, err = d.follow(at.file, ref); err != nil {
			break
		}
	}
	if d.lost == nil {
		d.lost = cmp.Or(err, errors.New("it has a circular reference"))
	}
	return part{}
}

// follow returns where a reference in a file leads.
func (d *described) follow(file, ref string) (part, error) {
	name, pointer, _ := strings.Cut(ref, "#")
	if strings.Contains(name, "://") {
		return part{}, fmt.Errorf("reference %q leads to a server, which is not asked", ref)
	}
	if name != "" {
		file = filepath.Join(filepath.Dir(file), filepath.FromSlash(name))
	}
	at, known := d.files[file]
	if !known {
		info, err := os.Stat(file)
		if err != nil {
			return part{}, err
		}
		if !info.Mode().IsRegular() {
			return part{}, fmt.Errorf("%s is no file", name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return part{}, err
		}
		if err := decode(text, &at); err != nil {
			return part{}, fmt.Errorf("%s is neither JSON nor YAML: %w", name, err)
		}
		d.files[file] = at
	}
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	for key := range strings.FieldsFuncSeq(pointer, func(c rune) bool { return c == '/' }) {
		at = at.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	if at == nil {
		return part{}, fmt.Errorf("reference %q leads nowhere", ref)
	}
	return part{at, file}, nil
}
