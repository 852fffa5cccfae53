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
	revision   int64
	generation int
	latest     instant // the latest at which anything was done
	blocked    instant // shut before it
	shut       bool
	setBack    instant // by how much the clock was set back and has not returned
	limits     []window.Limit
	windows    []naive   // nil: nobody asked for it yet
	seen       []instant // the latest that each has seen of it
}

func (p *naivePage) clone() naivePage {
	q := *p
	q.windows, q.seen = nil, slices.Clone(p.seen)
	for _, w := range p.windows {
		q.windows = append(q.windows, w.clone())
	}
	return q
}

func (p *naivePage) layOut(now instant, limits []window.Limit) {
	p.limits, p.windows, p.seen = limits, nil, nil
	for _, l := range limits {
		p.windows = append(p.windows, newNaive(l.Spec))
		p.seen = append(p.seen, now)
	}
}

// longest returns the longest time for which a charge counts.
func longest(limits []window.Limit) (span instant) {
	for _, l := range limits {
		span = max(span, micros(l.Spec.Span()))
	}
	return span
}

// mostSetBack is how long a store waits for the return of a clock.
const mostSetBack = 31 * 24 * time.Hour

// idle reports whether nothing of the page counts, and no block stands; also if a clock that
// was set back has returned.
func (p *naivePage) idle(clock instant) bool {
	if p.windows == nil {
		return false
	}
	if p.setBack > 0 {
		q := p.clone()
		by := min(p.setBack, micros(mostSetBack))
		q.move(p.latest+by, by)
		p, clock = &q, clock-longest(p.limits)
	}
	if clock < p.latest+longest(p.limits) || p.shut && clock < p.blocked {
		return false
	}
	for _, w := range p.windows {
		if b, ok := w.(*naiveBucket); ok && b.used(clock) > 0 {
			return false
		}
	}
	return true
}

// now returns the instant that counts, and whether the clock had been far ahead, or has
// returned. If so, all used units move there. Used units are those that each window counted
// when they last changed in it. A block does not make them fewer.
func (p *naivePage) now(clock instant) (now instant, moved bool) {
	ahead := clock - p.latest
	to, by := clock, ahead
	switch {
	case p.returned(ahead):
		by = min(ahead, p.setBack)
		if ahead >= p.setBack+2*longest(p.limits) {
			to = p.latest + by
		}
		p.setBack -= by
	case ahead >= 0:
		return clock, false
	case -ahead <= longest(p.limits):
		return p.latest, false
	default:
		p.setBack -= ahead
	}
	p.move(to, by)
	return clock, true
}

// move moves all used units to an instant, and the block by so much.
func (p *naivePage) move(to, by instant) {
	for i, w := range p.windows {
		used := w.used(p.seen[i])
		w.clear()
		w.add(to, used)
		p.seen[i] = to
	}
	p.shut = p.shut && p.blocked > p.latest
	p.blocked += by
	if p.blocked == 0 {
		p.blocked = 1 // see testModel
	}
	p.latest = to
	p.generation++
}

// returned reports whether a step is the return of a clock that was set back: at least half
// of the way, and longer than the windows.
func (p *naivePage) returned(step instant) bool {
	return p.setBack > 0 && step > longest(p.limits) && 2*step >= p.setBack
}

// relayOut lays the page out for a higher revision. A window that stays keeps its
// counts. A ring that is no longer than the longest old ring gets the buckets of that
// ring, each at its latest instant. Any other window starts now with the most that any
// old window counted.
func (p *naivePage) relayOut(now instant, revision int64, limits []window.Limit) {
	p.revision = revision
	old, windows, seen := p.limits, p.windows, p.seen
	p.layOut(now, limits)
	if slices.EqualFunc(old, limits, func(a, b window.Limit) bool { return a.Layout == b.Layout }) {
		p.windows, p.seen = windows, seen
		return
	}
	p.generation++
	p.latest = now
	var most int64
	longest := -1
	back := func(s window.Spec) time.Duration { return s.Span() - s.Precision } // how far a ring looks
	for i, w := range windows {
		most = max(most, w.used(now))
		if old[i].Spec.Algorithm == window.Sliding && (longest < 0 || back(old[i].Spec) > back(old[longest].Spec)) {
			longest = i
		}
	}
	for i, l := range limits {
		if j := slices.IndexFunc(old, func(o window.Limit) bool { return o.Layout == l.Layout }); j >= 0 {
			p.windows[i], p.seen[i] = windows[j], seen[j]
			continue
		}
		if longest < 0 || l.Spec.Algorithm != window.Sliding || back(l.Spec) > back(old[longest].Spec) {
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

// first returns the first instant from now on at which is is true. From then on is must
// stay true. It searches, because a formula could be wrong.
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

// tightest returns the window with the least units left, the first of several.
func (p *naivePage) tightest(now instant, limits []window.Limit) int {
	tightest := 0
	for i := range p.windows {
		if limits[i].Limit-p.windows[i].used(now) < limits[tightest].Limit-p.windows[tightest].used(now) {
			tightest = i
		}
	}
	return tightest
}

// state returns what Look must return for the page.
func (p *naivePage) state(clock, now instant, c quota.Charge) quota.PageState {
	s := quota.PageState{Pool: c.Pool, Now: clock.Time(), Revision: p.revision}
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

// unsafe returns how a ring breaks its promise: it never counts less than the exact log of
// the same charges, and it is at most one precision late.
func (p *naivePage) unsafe(now instant) string {
	for i, w := range p.windows {
		spec := p.limits[i].Spec
		l, ok := w.(*naiveList)
		if !ok || spec.Algorithm != window.Sliding {
			continue
		}
		used, log, late := w.used(now), l.within(now, micros(spec.Per)), l.within(now, micros(spec.Span()))
		if used < log || used > late {
			return fmt.Sprintf("ring %s counts %d, the exact log %d, one precision later %d", spec, used, log, late)
		}
	}
	return ""
}
