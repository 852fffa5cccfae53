package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// naivePage is the model of one pool.
type naivePage struct {
	known      bool
	revision   int64
	generation int
	latest     instant
	blocked    instant // shut before it
	shut       bool
	limits     []window.Limit
	windows    []naive
}

func (p *naivePage) layOut(limits []window.Limit) {
	p.limits, p.windows = limits, nil
	for _, l := range limits {
		p.windows = append(p.windows, newNaive(l.Spec))
	}
}

// now is the instant that counts, and whether the clock had been far ahead: then
// all that was used moves to where the clock is.
func (p *naivePage) now(clock instant) (now instant, rebased bool) {
	if clock >= p.latest {
		return clock, false
	}
	var span time.Duration
	for _, l := range p.limits {
		span = max(span, l.Spec.Span())
	}
	if p.latest-clock <= micros(span) {
		return p.latest, false
	}
	for _, w := range p.windows {
		used := w.used(p.latest)
		w.clear()
		w.add(clock, used)
	}
	p.shut = p.shut && p.blocked > p.latest
	p.blocked += clock - p.latest
	if p.blocked == 0 {
		p.blocked = 1 // see testModel
	}
	p.latest = clock
	p.generation++
	return clock, true
}

// relayOut is what a higher revision does: a window that stays keeps what it
// knows; a ring that looks no farther back than the longest ring there was gets
// that one's buckets, each at its latest instant; anything else starts with the
// most that any window counted, now.
func (p *naivePage) relayOut(now instant, revision int64, limits []window.Limit) {
	p.revision = revision
	old, windows := p.limits, p.windows
	p.layOut(limits)
	if slices.EqualFunc(old, limits, func(a, b window.Limit) bool { return a.Layout == b.Layout }) {
		p.windows = windows
		return
	}
	p.generation++
	var most int64
	longest := -1
	for i, w := range windows {
		most = max(most, w.used(now))
		if old[i].Spec.Algorithm == window.Sliding && (longest < 0 || old[i].Spec.Per > old[longest].Spec.Per) {
			longest = i
		}
	}
	for i, l := range limits {
		if j := slices.IndexFunc(old, func(o window.Limit) bool { return o.Layout == l.Layout }); j >= 0 {
			p.windows[i] = windows[j]
			continue
		}
		if longest < 0 || l.Spec.Algorithm != window.Sliding || l.Spec.Per > old[longest].Spec.Per {
			p.windows[i].add(now, most)
			continue
		}
		from := windows[longest].(*naiveList)
		for _, c := range from.charges {
			if from.counts(now, c.at) {
				p.windows[i].add(min(now, (from.in(c.at)+1)*from.cell-1), c.units)
			}
		}
	}
}

// fits reports whether units would be granted at an instant that is not before
// the page's.
func (p *naivePage) fits(now instant, units int64, limits []window.Limit) bool {
	if p.shut && now < p.blocked {
		return false
	}
	for i := range p.windows {
		if !p.fitsWindow(i, now, units, limits[i].Limit) {
			return false
		}
	}
	return true
}

func (p *naivePage) fitsWindow(i int, now instant, units, limit int64) bool {
	return units == 0 || p.windows[i].used(now)+units <= limit
}

// first returns the first instant from now on at which something that stays true
// is true. It searches: there is no formula in it that could be wrong.
func first(now instant, is func(instant) bool) instant {
	if is(now) {
		return now
	}
	before, after := now, now+1
	for !is(after) {
		before, after = after, now+2*(after-now)
	}
	for after-before > 1 {
		if mid := before + (after-before)/2; is(mid) {
			after = mid
		} else {
			before = mid
		}
	}
	return after
}

// tightest is the window with the least left, the first of several.
func (p *naivePage) tightest(now instant, limits []window.Limit) int {
	tightest := 0
	for i := range p.windows {
		if limits[i].Limit-p.windows[i].used(now) < limits[tightest].Limit-p.windows[tightest].used(now) {
			tightest = i
		}
	}
	return tightest
}

// state is what a look at the page shows.
func (p *naivePage) state(clock instant, c quota.Charge) quota.PageState {
	now := max(clock, p.latest)
	s := quota.PageState{Pool: c.Pool, Known: p.known, Now: clock.Time(), Revision: p.revision}
	if p.shut && p.blocked > now {
		s.Blocked = p.blocked.Time()
	}
	for i, w := range p.windows {
		used := w.used(now)
		state := quota.WindowState{Window: c.Windows[i].Name, Used: used, Limit: c.Windows[i].Limit, ResetAt: w.over(now).Time()}
		if used > 0 {
			next := first(now, func(at instant) bool { return w.used(at) < used })
			state.NextUnits, state.NextAt = used-w.used(next), next.Time()
		}
		s.Windows = append(s.Windows, state)
	}
	return s
}

// unsafe says where a ring is not what it promises: never below the exact log of
// the same charges, and at most one precision late.
func (p *naivePage) unsafe(now instant) string {
	for i, w := range p.windows {
		spec := p.limits[i].Spec
		l, ok := w.(*naiveList)
		if !ok || spec.Algorithm != window.Sliding {
			continue
		}
		used, log, late := w.used(now), l.within(now, micros(spec.Per)), l.within(now, micros(spec.Per+spec.Precision))
		if used < log || used > late {
			return fmt.Sprintf("ring %s counts %d, the exact log %d, one precision later %d", spec, used, log, late)
		}
	}
	return ""
}
