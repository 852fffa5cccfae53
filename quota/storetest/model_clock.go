package storetest

import (
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// How the clock of a timeline moves, and what else time does to a store.

var scales = []time.Duration{
	time.Microsecond, time.Millisecond, 50 * time.Millisecond, time.Second, time.Second, 5 * time.Second, 5 * time.Second,
	20 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 7 * time.Hour, 24 * time.Hour, 9 * 24 * time.Hour,
}

// drawStep returns a length of time from a microsecond to a month.
func drawStep(rt *rapid.T) instant {
	scale := rapid.SampledFrom(scales).Draw(rt, "scale")
	return instant(rapid.Int64Range(1, 4*scale.Microseconds()).Draw(rt, "step"))
}

func (tr *trial) forward(rt *rapid.T) { tr.setClock(tr.clock + drawStep(rt)) }

// boundary moves the clock to the end of a period of a calendar, a bucket or a fixed
// window, or next to it.
func (tr *trial) boundary(rt *rapid.T) {
	p := tr.pool(rt)
	w := p.windows[rapid.IntRange(0, len(p.windows)-1).Draw(rt, "window")]
	var end instant
	switch {
	case w.Spec.Algorithm == window.ByCalendar:
		_, end = w.Spec.Bounds(tr.clock)
	case w.Spec.Algorithm == window.Sliding:
		l := naiveList{cell: micros(w.Spec.Precision)}
		end = (l.in(tr.clock) + 1) * l.cell
	default:
		l := naiveList{cell: micros(w.Spec.Per)}
		end = (l.in(tr.clock) + 1) * l.cell
	}
	lag := micros(max(w.Spec.Lag, 0))
	next := rapid.SampledFrom([]instant{end - lag - 1, end - lag, end - 1, end, end + lag - 1, end + lag}).Draw(rt, "next to")
	tr.setClock(max(next, tr.clock))
}

// back steps the clock back, wherever the pages are. It may do so again and again.
func (tr *trial) back(rt *rapid.T) { tr.step(rt, tr.clock-drawStep(rt)) }

// brink moves the clock so that a page is almost, or just, too far ahead of it.
func (tr *trial) brink(rt *rapid.T) {
	p := tr.pool(rt)
	if p.page.windows == nil {
		rt.SkipNow()
	}
	tr.step(rt, p.page.latest-longest(p.page.limits)-instant(rapid.IntRange(-1, 1).Draw(rt, "off")))
}

// twice steps the clock back twice. After the first step one pool is re-based, and another
// one has dropped its units. After the second step those units count again. Between the
// steps a request asks for both pools, and is mostly refused.
func (tr *trial) twice(rt *rapid.T) {
	order := rapid.Permutation([]int{0, 1, 2}).Draw(rt, "pools")
	a, b := tr.pools[order[0]], tr.pools[order[1]]
	tr.recordThis(rt, tr.store(rt), window.Never, b)
	before := tr.clock
	tr.setClock(tr.clock + longest(a.windows) + longest(b.windows) + drawStep(rt))
	tr.recordThis(rt, tr.store(rt), window.Never, a)
	tr.step(rt, a.page.latest-longest(a.windows)-1)
	tr.reserveThese(rt, "", []*modelPool{a, b}, []int64{a.windows[0].Limit, drawUnits(rt, b)})
	tr.settled(rt)
	tr.step(rt, before+instant(rapid.IntRange(-1_000_000, 1_000_000).Draw(rt, "off")))
	tr.lookAt(rt, a, b)
}

// swing steps the clock back once or several times, and lets it return. Meanwhile requests
// are made.
func (tr *trial) swing(rt *rapid.T) {
	pools := tr.some(rt)
	units := make([]int64, len(pools))
	for i, p := range pools {
		units[i] = drawUnits(rt, p)
	}
	for range rapid.IntRange(1, 3).Draw(rt, "swings") {
		tr.reserveThese(rt, "", pools, units)
		tr.settled(rt)
		before := tr.clock
		for range rapid.IntRange(1, 2).Draw(rt, "steps") {
			tr.step(rt, tr.clock-drawStep(rt))
			tr.reserveThese(rt, "", pools, units)
			tr.settled(rt)
		}
		tr.setClock(max(tr.clock, before+instant(rapid.IntRange(-1, 1_000_000).Draw(rt, "later"))))
		tr.reserveThese(rt, "", pools, units)
	}
}

// lastDay is the latest instant to which the clock jumps. Some years later, Lua's doubles
// can no longer hold microseconds.
var lastDay = window.At(time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC))

// yearAhead is how far a clock may be set back so that the receipts from before are still known.
const yearAhead = 365 * 24 * time.Hour

// ahead lets the clock jump years ahead; comeHome brings it back to where it was.
func (tr *trial) ahead(rt *rapid.T) {
	to := tr.clock + micros(time.Duration(rapid.IntRange(800, 20_000).Draw(rt, "days"))*24*time.Hour)
	if tr.home != 0 || to > lastDay || rapid.IntRange(0, 2).Draw(rt, "stay") > 0 {
		rt.SkipNow()
	}
	tr.home = tr.clock
	tr.setClock(to)
}

func (tr *trial) comeHome(rt *rapid.T) {
	if tr.home == 0 {
		rt.SkipNow()
	}
	home := tr.home
	tr.home = 0
	tr.step(rt, home+drawStep(rt))
}

// step sets the clock, perhaps to an earlier time. Before a step back it charges the pages
// that may have been forgotten because nothing of them counted. Otherwise the model could
// not know what counts again.
func (tr *trial) step(rt *rapid.T, to instant) {
	if to < tr.clock {
		for p := tr.forgotten(); p != nil; p = tr.forgotten() {
			p.reborn = false
			for _, s := range tr.stores {
				tr.recordThis(rt, s, window.Never, p)
			}
		}
		tr.age(-tr.clock.Sub(to))
		tr.receipts = slices.DeleteFunc(tr.receipts, func(r *modelReceipt) bool { return (r.high - to).Sub(0) > yearAhead })
	}
	tr.setClock(to)
	tr.rebaseMembers(rt)
}

// forgotten returns a page that may have been forgotten, or nil.
func (tr *trial) forgotten() *modelPool {
	for _, p := range tr.all() {
		if p.lapsed || p.reborn {
			return p
		}
	}
	return nil
}

// pause lets hours or days pass, as after the last call of a day. Another process may
// make the next call.
func (tr *trial) pause(rt *rapid.T) {
	hours := rapid.SampledFrom([]int{1, 3, 4, 26, 30, 24 * 9, 24 * 40}).Draw(rt, "hours")
	for _, p := range tr.all() {
		if p.page.setBack > micros(mostSetBack) {
			hours = min(hours, 30) // it must not expire before the clock can have returned
		}
	}
	d := time.Duration(hours)*time.Hour - time.Duration(rapid.IntRange(0, 60).Draw(rt, "less"))*time.Minute
	tr.setClock(tr.clock + micros(d))
	if tr.age(d); tr.h.Age != nil {
		for _, p := range tr.all() {
			if p.page.idle(tr.clock) {
				p.lapsed, p.reborn = true, true
			}
		}
	}
	if rapid.Bool().Draw(rt, "restart") {
		tr.restart(rt)
	}
}

// age makes the store's entries older by d, or younger if d is negative. A step back makes
// them younger, because entries expire at an instant. Only a pause makes them older. A
// leap of the clock that is set back does not remove them.
func (tr *trial) age(d time.Duration) {
	if tr.h.Age != nil {
		tr.h.Age(tr.tb, tr.stores[0], d)
	}
}

// restart ends a process, and opens its data in another one.
func (tr *trial) restart(rt *rapid.T) {
	if tr.h.Reopen == nil || rapid.IntRange(0, 2).Draw(rt, "skip") > 0 {
		return
	}
	i := rapid.IntRange(0, len(tr.stores)-1).Draw(rt, "process")
	tr.tell(rt, "restart process %d", i)
	tr.stores[i] = tr.h.Reopen(tr.tb, tr.stores[i])
}
