package draft

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
