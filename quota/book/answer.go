package book

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// Refusal is a rule for refusals by the upstream itself. An answer matches if it
// meets all conditions that are set. Exactly one of Until, At, For and Credential
// is set, and says what the answer means.
type Refusal struct {
	Condition
	Reason []string // condition: a member "reason" of the JSON body is one of these
	Body   []string // condition: the body contains one of these

	Until      string        // blocks the pools until their reset ([UntilReset]), or the time in this header
	At         *Time         // blocks the pools until this time
	Pools      []string      // the pools to block; nil: those of the call
	Pool       *PoolName     // the pool to block, which the answer names
	For        time.Duration // blocks the pools this long, unless there is a Retry-After header
	Limit      *Source       // the upstream's limit of these pools, if the answer names it
	Credential bool          // the API key is not accepted: no pool is blocked
}

// UntilReset is the Until of a rule that blocks pools until their reset.
const UntilReset = "reset"

func (r *reader) refusals(all []keys.Refusal, u *keys.Upstream) []Refusal {
	var rules []Refusal
	var given []*keys.Refusal
	for i := range all {
		d := &all[i]
		if !r.means(d, u) {
			continue
		}
		rule := Refusal{
			Condition: Condition{d.Status, d.Header.Name, d.Header.Value}, Reason: d.Reason, Body: d.Body,
			Pools: d.Pools, For: d.For, Credential: d.Credential,
		}
		if until := &d.Until; until.Word != "" {
			if rule.Until = until.Word; rule.Until != UntilReset && !strings.Contains(rule.Until, "-") { // of no header that tells a time
				r.fault(r.place(until), "until must be %q or a header with a dash, such as Retry-After, is %q%s", UntilReset, rule.Until, orMean(rule.Until,
					[]string{UntilReset, "Retry-After"}, "write for: 30s, or until: {header: "+rule.Until+", as: seconds} if answers have that header"))
			}
		} else if r.given(until) {
			rule.At = r.time(until, "until")
		}
		if r.given(&d.Pool) {
			rule.Pool = r.poolName(&d.Pool, u)
		}
		switch {
		case !r.given(&d.Limit):
		case d.Credential:
			r.fault(r.place(&d.Limit), "a refusal with credential: true is about no limit; remove limit")
		default:
			rule.Limit = r.inAnswer(&d.Limit, "the limit", "X-RateLimit-Limit")
		}
		if i := slices.IndexFunc(rules, func(before Refusal) bool { return before.covers(&rule) }); i >= 0 {
			r.fault(r.place(d), "this refusal is never reached: the one at %s takes every answer that this is for; move this one above it", r.place(given[i]))
		}
		rules, given = append(rules, rule), append(given, d)
	}
	return rules
}

// means checks that a rule has no status twice and no credential: false, and that it blocks pools
// that exist.
func (r *reader) means(d *keys.Refusal, u *keys.Upstream) bool {
	for i := range d.Status {
		if status := &d.Status[i]; r.sound(status) && slices.Contains(d.Status[:i], *status) {
			r.fault(r.place(status), "status %d is given twice; keep one", *status)
			return false
		}
	}
	switch {
	case r.given(&d.Credential) && r.sound(&d.Credential) && !d.Credential:
		r.fault(r.place(&d.Credential), "credential: false says nothing; write until or for, or remove the refusal")
		return false
	case !r.sound(d):
		return false
	case d.Credential && (r.given(&d.Pools) || r.given(&d.Pool)):
		r.fault(r.place(d), "a refusal with credential: true blocks no pool; remove %s", map[bool]string{true: "pools", false: "pool"}[r.given(&d.Pools)])
		return false
	case r.given(&d.Pools) && r.given(&d.Pool):
		r.fault(r.place(&d.Pool), "a refusal has pools or pool; keep one")
		return false
	}
	ok := true
	for i := range d.Pools {
		ok = r.hasPool(&d.Pools[i], d.Pools[i], "a refusal", u) && ok
	}
	return ok
}

// hasPool checks that an upstream has a pool that is named at x.
func (r *reader) hasPool(x any, pool, who string, u *keys.Upstream) bool {
	known := r.names(&u.Pools)
	if slices.Contains(known, pool) {
		return true
	}
	r.fault(r.place(x), "%s names pool %q, which does not exist%s", who, pool, orMean(pool, known, "add it to pools, or name"+knownPools(known)))
	return false
}

// covers reports whether a rule matches every answer that another one matches.
func (u *Refusal) covers(v *Refusal) bool {
	if u.Until != "" && u.Until != UntilReset || u.At != nil || u.Pool != nil && u.Pool.From != nil {
		return false // only where what it reads is there
	}
	asks := u.Header != "" || u.Reason != nil || u.Body != nil
	return !asks && !slices.ContainsFunc(v.Status, func(s int) bool { return !slices.Contains(u.Status, s) })
}

// headerValue is a header that must be there, or one and its value.
type headerValue keys.Header

func (h *headerValue) read(r *reader, f *field, t *tree) {
	if t.Kind == isText {
		if name, value, both := strings.Cut(t.Text, ":"); both {
			r.fault(t.At, "header %q is a name and a value; write header: {%s: %s}", t.Text, name, strings.TrimSpace(value))
		} else if r.text(f, t, f.key) {
			h.Name = name
		}
		return
	}
	if t.Kind != isMapping || len(t.Entries) != 1 {
		r.fault(t.At, "header must be the name of one, or one and its value, as in {x-ratelimit-remaining: 0}, is %s", show(t))
		return
	}
	e := t.Entries[0]
	r.text(f, &tree{Kind: isText, At: e.At, Text: e.Key}, f.key)
	h.Name, h.Value = e.Key, e.Value.Text
	switch kind, why := e.Value.Kind, textKinds["phrase"].check(h.Value); {
	case kind != isText && kind != isNumber && kind != isFlag:
		r.fault(e.At, "the value of header %s must be text or a number, is %s", e.Key, kind)
	case why != "":
		r.fault(e.Value.At, "the value of header %s %s", e.Key, why)
	case h.Value != strings.TrimSpace(h.Value):
		r.fault(e.Value.At, "the value of header %s has spaces around it, which no header keeps; remove them", e.Key)
	}
}

func (h *headerValue) tree() *tree {
	switch {
	case h.Value != "":
		return &tree{Kind: isMapping, Flow: true, Entries: []entry{{Key: h.Name, Value: text(h.Value)}}}
	case h.Name != "":
		return text(h.Name)
	}
	return nil
}

func (r *reader) feedback(all []keys.Feedback, u *Upstream, d *keys.Upstream) (reports []Feedback) {
	for i := range all {
		f := &all[i]
		if !r.readable(f) || !r.sound(f) {
			continue
		}
		if f.Word != "" {
			reports = append(reports, standard())
			continue
		}
		report := Feedback{Per: length(f.Per), Refills: f.Refills, Requested: f.Counts != ""}
		if pool := r.poolName(&f.Pool, d); pool != nil {
			report.Pool = *pool
		}
		told := 0
		for i, s := range [...]struct {
			from *keys.Source
			to   **Source
		}{{&f.Limit, &report.Limit}, {&f.Remaining, &report.Remaining}, {&f.Used, &report.Used}, {&f.UsedPercent, &report.UsedPercent}} {
			if !r.given(s.from) {
				continue
			}
			if i > 0 {
				told++
			}
			*s.to = r.inAnswer(s.from, "feedback", "X-RateLimit-Remaining")
		}
		if r.given(&f.Reset) {
			if f.Reset.Word != "" {
				r.fault(r.place(&f.Reset), "reset must say how the time is written, as in {header: X-RateLimit-Reset, as: unix}")
			} else {
				report.Reset = r.time(&f.Reset, "reset")
			}
		}
		if told > 1 {
			r.fault(r.place(f), "a feedback has several of remaining, used and used_percent; keep one")
		} else if told == 0 && !report.Requested && !r.given(&f.Limit) {
			r.fault(r.place(f), "a feedback reports nothing; write remaining, used, used_percent or limit")
		}
		for _, name := range report.Pool.Pools(u) {
			pool := u.Pools[name]
			if report.Per > 0 && pool != nil && !slices.ContainsFunc(pool.Windows, func(w Window) bool { return w.Length() == report.Per }) {
				r.fault(r.place(&f.Per), "pool %q has no window of %s", name, f.Per)
			}
		}
		reports = append(reports, report)
	}
	return reports
}

// standard is what the fields of the IETF report: of any pool, and with its limit.
func standard() Feedback {
	return Feedback{Standard: true, Pool: PoolName{From: &Source{Header: "RateLimit"}}, Limit: &Source{Header: "RateLimit-Policy"}}
}

// Pools returns the pools that may be meant.
func (n *PoolName) Pools(u *Upstream) []string {
	switch {
	case n.From == nil:
		return []string{n.Name}
	case n.Names != nil:
		return slices.Compact(slices.Sorted(maps.Values(n.Names)))
	}
	return slices.Sorted(maps.Keys(u.Pools))
}

// Pool returns the pool that the upstream calls by this name, or "".
func (n *PoolName) Pool(u *Upstream, named string) string {
	if n.Names != nil {
		named = n.Names[named]
	}
	if u.Pools[named] == nil {
		return ""
	}
	return named
}

// poolName makes the name of a pool, or where an answer has it.
func (r *reader) poolName(d *keys.PoolName, u *keys.Upstream) *PoolName {
	if !r.readable(d) || !r.sound(d) {
		return nil
	}
	if r.written(d).Kind == isText {
		r.hasPool(d, d.Name, "it", u)
		return &PoolName{Name: d.Name}
	}
	from, ok := r.textIn(d, "pool", d.Header, d.Body, d.JSON, d.Match)
	if !ok {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(d.Names)) {
		known := r.names(&u.Pools)
		if pool := d.Names[name]; !slices.Contains(known, pool) {
			r.fault(r.written(&d.Names).Value(name).At, "names has pool %q, which does not exist%s", pool, orMean(pool, known, "add it to pools, or name"+knownPools(known)))
		}
	}
	return &PoolName{From: from, Names: d.Names}
}

func (r *reader) time(d *keys.Time, key string) *Time {
	if !r.readable(d) || !r.sound(d) {
		return nil
	}
	from, ok := r.textIn(d, key, d.Header, d.Body, d.JSON, d.Match)
	if !ok {
		return nil
	}
	return &Time{Source: *from, As: TimeForm(d.As)}
}

// inAnswer makes a source that an answer has, or nil.
func (r *reader) inAnswer(d *keys.Source, what, example string) *Source {
	if d.Number != nil {
		r.fault(r.place(d), "%s is read from the answer, and a number is the same in each; write a source such as {header: %s}", what, example)
		return nil
	}
	source, ok := r.source(d, forFeedback)
	if !ok {
		return nil
	}
	return &source
}

// textIn makes a source of a text, which stands in one place of the answer.
func (r *reader) textIn(d any, key, header, body, member, match string) (*Source, bool) {
	if (header == "") == (body == "") {
		r.fault(r.place(d), "%s needs one place to read; write header or body", key)
		return nil, false
	}
	s := &Source{Header: header, Body: body, JSON: member, Per: 1, Times: 1, Max: window.MaxUnits}
	if match != "" {
		s.Match, _ = regexp.Compile(match) // badRegexp has checked it
	}
	return s, true
}

// length returns how long a span is at most.
func length(s keys.Span) time.Duration {
	per, period := parts(s)
	return window.Spec{Per: per, Period: period}.Length()
}
