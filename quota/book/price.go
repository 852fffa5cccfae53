package book

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// purpose is what a source is read for.
type purpose string

const (
	forEstimate purpose = "an estimate"
	forActual   purpose = "the actual cost"
	forName     purpose = "a name"
	forKey      purpose = "a key"
	forFeedback purpose = "feedback"
)

// price makes the price of a call on a pool: the units that are known without the
// request, and the rest if it depends on the call.
func (r *reader) price(d *keys.Price) (units int64, p *Price) {
	if d == nil {
		return 0, nil
	}
	if d.Fixed != nil {
		return *d.Fixed, nil
	}
	if !r.readable(d) || !r.sound(d) {
		return 0, nil
	}
	p = &Price{AtEnd: d.Counted == "end"}
	for i := range d.Actual {
		if s, ok := r.source(&d.Actual[i], forActual); ok {
			p.Actual = append(p.Actual, s)
		}
	}
	for i := range d.Estimate {
		e := &d.Estimate[i]
		if e.Learn != "" {
			p.Learn = r.learn(e, d)
		}
		if e.Learn != "" && !reads(e) {
			units += valueOf(e.First)
			continue
		}
		s, ok := r.source(e, forEstimate)
		if !ok {
			continue
		}
		p.Estimate = append(p.Estimate, s)
		units += unknown(&s, p.Learn)
	}
	if p.Actual == nil && p.AtEnd {
		r.fault(r.place(&d.Counted), "counted: end needs actual: without it nothing is known when the call ends")
	}
	units = min(units, window.MaxUnits)
	if p.Actual == nil && p.Learn == nil && !slices.ContainsFunc(p.Estimate, func(s Source) bool { return !s.Fixed() }) {
		return units, nil // a fixed price, written long
	}
	return units, p
}

// unknown returns what an estimate reserves if the request is not known.
func unknown(s *Source, l *Learn) int64 {
	switch {
	case s.Fixed():
		return s.Number
	case l != nil && l.First > 0:
		return l.First
	case s.Default != nil:
		return *s.Default
	}
	return s.Min
}

// learn makes the rule of an estimate that follows the calls.
func (r *reader) learn(e *keys.Source, d *keys.Price) *Learn {
	switch {
	case d.Actual == nil:
		r.fault(r.place(&e.Learn), "learn needs actual, because it learns from what the calls have cost")
	case len(d.Estimate) > 1:
		r.fault(r.place(&e.Learn), "learn stands alone; put the bound of the request beside it, as in {body: max_tokens, learn: p95}")
	case !reads(e) && e.First == nil:
		r.fault(r.place(&e.Learn), "learn needs first: what to reserve until enough calls were seen")
	}
	percent, _ := strconv.Atoi(strings.TrimPrefix(e.Learn, "p"))
	return &Learn{Percent: percent, First: valueOf(e.First)}
}

// reads reports whether a source names a place to read.
func reads(d *keys.Source) bool {
	_, place := placesOf(d)
	return d.Number != nil || place != ""
}

// placesOf returns the keys that say where the value stands, and the first one's value.
func placesOf(d *keys.Source) (all []string, first string) {
	for _, p := range [...]struct{ key, value string }{
		{"header", d.Header}, {"query", d.Query}, {"path", d.Path}, {"body", d.Body}, {"count", d.Count}, {"bytes", d.Bytes}, {"call", d.Call},
	} {
		if p.value != "" {
			all, first = append(all, p.key), cmp.Or(first, p.value)
		}
	}
	return all, first
}

// source makes a source, and checks that it can be read for its purpose.
func (r *reader) source(d *keys.Source, why purpose) (Source, bool) {
	if d.Number != nil {
		return Source{Number: *d.Number, Per: 1, Times: 1, Max: window.MaxUnits}, true
	}
	if !r.readable(d) || !r.sound(d) {
		return Source{}, false
	}
	before := len(r.faults)
	places, named := placesOf(d)
	switch {
	case why == forKey && len(places) != 1:
		r.fault(r.place(d), "by reads one place of the request; write one of header, query, path, body, call: method, call: caller, or a list of several")
	case len(places) == 0:
		r.fault(r.place(d), "%s needs a place to read; write one of header, query, path, body, count, bytes: body, or a number", why)
	case len(places) > 1:
		r.fault(r.place(d), "%s reads one place, not %s; write a list to add several up", why, list(places, "and"))
	case (why == forActual || why == forFeedback) && (d.Query != "" || d.Path != ""):
		r.fault(r.place(d), "%s is read from the answer, which has no %s", why, places[0])
	}
	if d.Learn != "" && why != forEstimate {
		r.fault(r.place(&d.Learn), "learn belongs to an estimate")
	}
	if d.First != nil && d.Learn == "" {
		r.fault(r.place(&d.First), "first needs learn beside it, as in {learn: p95, first: 2000}; without learn use default")
	}
	if d.Split != "" && d.Cases == nil {
		r.fault(r.place(&d.Split), "split needs cases: the number for each part of the text")
	}
	if d.Default.Text != "" && why != forName && why != forKey {
		r.fault(r.place(&d.Default), "default must be a whole number from 0 to %d, is %q", int64(window.MaxUnits), d.Default.Text)
	}
	s := Source{
		Header: d.Header, Query: d.Query, Path: d.Path, Body: d.Body, Count: d.Count, Bytes: d.Bytes != "", Call: d.Call == "method", Caller: d.Call == "caller", JSON: d.JSON,
		Cases: d.Cases, Split: d.Split, Per: max(d.Per, 1), Times: max(d.Times, 1), Min: d.Min, Max: window.MaxUnits,
		Default: d.Default.Number, DefaultText: d.Default.Text,
	}
	if why == forKey && s.Default != nil { // a name that looks like a number
		s.Default, s.DefaultText = nil, strconv.FormatInt(*s.Default, 10)
	}
	if d.Max != nil {
		if s.Max = *d.Max; s.Max < s.Min {
			r.fault(r.place(&d.Max), "max %d is below min %d", s.Max, s.Min)
		}
	}
	if d.Match != "" {
		s.Match, _ = regexp.Compile(d.Match) // badRegexp has checked it
	}
	if why == forEstimate && s.Default == nil && s.DefaultText == "" && d.First == nil && !s.Bytes && len(places) == 1 {
		r.fault(r.place(d), "%s needs default: what to reserve if the request does not have %s %q", why, places[0], named)
	}
	return s, len(r.faults) == before
}

func badMember(path string) string {
	if why := plainText(256)(path); why != "" {
		return why
	}
	for one := range strings.SplitSeq(path, "|") {
		if slices.Contains(strings.Split(strings.TrimSpace(one), "."), "") {
			return "is no path of members, such as usage.input_tokens"
		}
		if n := strings.Count(one, "."); n >= 16 {
			return fmt.Sprintf("has %d parts, at most 16 are allowed", n+1)
		}
	}
	return ""
}

func badRegexp(text string) string {
	if why := plainText(256)(text); why != "" {
		return why
	}
	re, err := regexp.Compile(text)
	switch {
	case err != nil:
		return "is no regular expression of RE2: " + err.Error()
	case re.NumSubexp() > 1:
		return "has several groups; keep one, and write (?:...) for the others"
	}
	return ""
}

// fallback is a number, or a text where a name is wanted.
type fallback keys.Fallback

func (d *fallback) read(r *reader, f *field, t *tree) {
	if t.Kind == isNumber {
		if n, ok := r.integer(t, f.key, f.least, f.most); ok {
			d.Number = &n
		}
	} else if r.text(f, t, f.key) {
		d.Text = t.Text
	}
}

func (d *fallback) tree() *tree {
	switch {
	case d.Number != nil && d.Text != "":
		return both("number", number(*d.Number), "text", text(d.Text))
	case d.Number != nil:
		return number(*d.Number)
	case d.Text != "":
		return text(d.Text)
	}
	return nil
}
