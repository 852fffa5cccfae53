package book

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

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
