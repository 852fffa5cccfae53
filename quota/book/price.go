package book

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// Price is what a call charges a pool, if that depends on the call.
type Price struct {
	Estimate []Source // added up: what is reserved before the call; empty with Learn alone
	Learn    *Learn   // reserve by the recent cost of the method's calls; Estimate is then the most
	Actual   []Source // added up: what the call has cost, by its answer; nil: the estimate stands
	AtEnd    bool     // the upstream counts the call when it ends
}

// Learn reserves what a share of the recent calls of a method stayed within.
type Learn struct {
	Percent int   // the share: 95
	First   int64 // reserved until enough calls were seen; 0: the Estimate
}

// Source is a number, or where one stands in a request or an answer. Exactly one of its
// first fields is set; none of them is the number itself.
type Source struct {
	Header string // a header
	Query  string // a parameter of the URL
	Path   string // a {name} of the method's route
	Body   string // a member of the JSON body: usage.input_tokens; a | stands between alternatives
	Count  string // an array of the JSON body: its length
	Bytes  bool   // the length of the body
	Time   bool   // the milliseconds from sending the call to the end of its answer
	Call   bool   // the name of the method, for a key
	Caller bool   // the name of the caller, for a key; see [CallerOf]
	Number int64

	JSON  string           // the text is JSON: this member of it
	Match *regexp.Regexp   // the text has this in it: its first group, or all of the match
	Cases map[string]int64 // the number that stands for the text
	Split string           // between parts of the text, whose cases are added up; "" is one part

	Per, Times int64   // the number is divided by Per, rounded up, and then multiplied by Times; both are at least 1
	Weight     *Source // of the request: the result is multiplied by it; nil: by 1
	Min, Max   int64   // bounds of the result; Max is at most window.MaxUnits
	Default    *int64  // the result if the source is missing or cannot be read; nil: no default

	DefaultText string // the same for a source whose text is a name

	Price string // of a bill: the name of its price
	Role  Role   // of a bill: what it does to the source before it
}

// Fixed reports whether a source is a number, whatever the call.
func (s *Source) Fixed() bool {
	return s.Header == "" && s.Query == "" && s.Path == "" && s.Body == "" && s.Count == "" && !s.Bytes && !s.Time && !s.Call && !s.Caller
}

// TimeForm is how an upstream writes a time.
type TimeForm string

// The forms. Seconds, minutes and durations count from the answer's Date.
const (
	UnixTime       TimeForm = "unix"
	UnixMillis     TimeForm = "unix_ms"
	SecondsToGo    TimeForm = "seconds"
	MinutesToGo    TimeForm = "minutes"
	DurationToGo   TimeForm = "duration" // 6m0s, 12ms
	RFC3339Time    TimeForm = "rfc3339"
	HTTPDate       TimeForm = "http_date"
	RetryAfterTime TimeForm = "retry_after" // seconds or an HTTP date, as Retry-After has them
)

// Time is where an answer has a time, and in what form.
type Time struct {
	Source Source
	As     TimeForm
}

// PoolName is a pool, or where an answer names one.
type PoolName struct {
	Name  string            // the pool; "" if From has it
	From  *Source           // its text names the pool
	Names map[string]string // the pool by the upstream's name for it; nil: they are the same
}

// Feedback is what the answers of an upstream report about one pool.
type Feedback struct {
	Pool        PoolName
	Limit       *Source
	Remaining   *Source
	Used        *Source
	UsedPercent *Source
	Reset       *Time
	Per         time.Duration // which window of the pool; 0: its only one, or its longest
	Refills     bool          // the pool is a bucket of the upstream: Reset moves with every answer
	Requested   bool          // the upstream counts what was requested: settling gives nothing back
	Standard    bool          // the fields RateLimit and RateLimit-Policy say it all, of any pool: see content.Limits
}

// Condition is what an answer must have; all fields that are set count.
type Condition struct {
	Status []int
	Header string
	Value  string // of Header; "" is any
}

// purpose is what a source is read for.
type purpose string

const (
	forEstimate purpose = "an estimate"
	forActual   purpose = "the actual cost"
	forName     purpose = "a name"
	forKey      purpose = "a key"
	forWeight   purpose = "a weight"
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
		{"header", d.Header}, {"query", d.Query}, {"path", d.Path}, {"body", d.Body}, {"count", d.Count}, {"bytes", d.Bytes}, {"time", d.Time}, {"call", d.Call},
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
	if d.Time != "" && why != forActual {
		r.fault(r.place(&d.Time), "time: call belongs to actual, because it is known when the answer has ended")
	}
	if d.Weight != nil && why != forEstimate && why != forActual {
		r.fault(r.place(d.Weight), "weight belongs to a source of estimate or actual")
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
		Header: d.Header, Query: d.Query, Path: d.Path, Body: d.Body, Count: d.Count, Bytes: d.Bytes != "", Time: d.Time != "", Call: d.Call == "method", Caller: d.Call == "caller", JSON: d.JSON,
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
	if (why == forEstimate || why == forWeight) && s.Default == nil && s.DefaultText == "" && d.First == nil && !s.Bytes && len(places) == 1 {
		r.fault(r.place(d), "%s needs default: the value if the request does not have %s %q", why, places[0], named)
	}
	if d.Weight != nil {
		w, _ := r.source(d.Weight, forWeight)
		s.Weight = &w
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
