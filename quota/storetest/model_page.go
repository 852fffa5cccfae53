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
// old window counted. If units may still be sent, they count from when that is over; the
// page is ahead until then, and what would leave meanwhile stays.
func (p *naivePage) relayOut(clock instant, revision int64, limits []window.Limit) (at instant, rebased bool) {
	now, rebased := p.now(clock)
	p.revision = revision
	old, windows, seen := p.limits, p.windows, p.seen
	if slices.EqualFunc(old, limits, func(a, b window.Limit) bool { return a.Layout == b.Layout }) {
		p.limits = limits
		return now, rebased
	}
	p.layOut(now, limits)
	p.generation++
	p.latest = now
	var most int64
	ring := -1                                                                  // the longest
	back := func(s window.Spec) time.Duration { return s.Span() - s.Precision } // how far a ring looks
	sent := window.Never                                                        // all units, by what each window says
	minute := now + micros(time.Minute)
	for i, w := range windows {
		most = max(most, w.used(now))
		switch s := old[i].Spec; s.Algorithm {
		case window.Sliding:
			if ring < 0 || back(s) > back(old[ring].Spec) {
				ring = i
			}
			sent = min(sent, w.over(now)-micros(s.Per), minute+micros(back(s)-s.Per))
		case window.Exact, window.InFlight:
			sent = min(sent, w.over(now)-micros(s.Per))
		case window.ByCalendar:
			sent = min(sent, minute)
		default:
			sent = min(sent, now)
		}
	}
	if most == 0 {
		sent = now // nothing is
	}
	at = now
	counted := make([][]charge, len(limits)) // what each window must count until the clock has come to at
	for i, l := range limits {
		if j := slices.IndexFunc(old, func(o window.Limit) bool { return o.Layout == l.Layout }); j >= 0 {
			p.windows[i], p.seen[i] = windows[j], seen[j]
			counted[i] = []charge{{now, windows[j].used(now)}}
			continue
		}
		if ring < 0 || l.Spec.Algorithm != window.Sliding || back(l.Spec) > back(old[ring].Spec) {
			at = max(at, later(l.Spec, now, sent))
			p.windows[i].add(max(now, later(l.Spec, now, sent)), most)
			continue
		}
		from, to, spec := windows[ring].(*naiveList), p.windows[i].(*naiveList), old[ring].Spec
		for _, c := range from.charges {
			if c.units == 0 || !from.counts(now, c.at) {
				continue
			}
			end := (from.in(c.at) + 1) * from.cell
			c.at = max(min(now, end-1), later(l.Spec, now, min(sent, end+micros(back(spec)-spec.Per))))
			at = max(at, c.at)
			if c.at >= now || to.counts(now, c.at) {
				to.add(c.at, c.units)
				counted[i] = append(counted[i], c)
			}
		}
	}
	for i, w := range p.windows {
		if at == now {
			break
		}
		p.seen[i] = at
		s := limits[i].Spec
		if s.Calendar() {
			if _, end := s.Bounds(now); at >= end {
				p.shutUntil(at + 1)
			}
			continue
		}
		var has int64
		for _, c := range counted[i] {
			has += c.units
		}
		if left := has - w.used(at); left > 0 {
			w.add(oldest(s, at), left)
		}
	}
	p.latest = at
	if at-clock <= longest(limits) {
		return at, rebased
	}
	if now-clock > micros(time.Minute) { // more than the book before can have done: the clock was set back
		p.setBack += now - clock
	}
	p.move(clock, clock-now)
	if sent = min(sent, clock+micros(time.Minute)); most > 0 && sent > clock {
		p.shutUntil(sent + longest(limits))
	}
	return clock, true
}

// shutUntil blocks the page. The later of two blocks stands.
func (p *naivePage) shutUntil(until instant) {
	if !p.shut || until > p.blocked {
		p.blocked, p.shut = until, true
	}
	if p.blocked == 0 {
		p.blocked = 1 // see testModel
	}
}

// later returns the first instant from which units count until a window after sent, by the
// bucket that ends no earlier. A calendar needs it only if that is in its next period.
func later(s window.Spec, now, sent instant) instant {
	switch s.Algorithm {
	case window.Sliding:
		l := newNaive(s).(*naiveList)
		return (l.in(sent-1) - (l.keep - instant(s.Per/s.Precision))) * l.cell
	case window.ByCalendar:
		if _, end := s.Bounds(now); sent <= end-micros(max(s.Lag, 0)) {
			return now
		}
	}
	return sent
}

// oldest returns the earliest instant that counts in full at another one.
func oldest(s window.Spec, at instant) instant {
	if l, ok := newNaive(s).(*naiveList); ok {
		return (l.in(at) - l.keep) * l.cell
	}
	return at
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
