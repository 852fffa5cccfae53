package storetest

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// How the clock of a timeline moves.

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

// boundary goes to where a period of a calendar, a bucket or a fixed window ends,
// or next to it.
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

// back steps the clock back by less than the shortest window, from behind every
// page.
func (tr *trial) back(rt *rapid.T) {
	tr.pin(rt)
	latest := tr.clock
	for _, p := range tr.pools {
		latest = max(latest, p.page.latest)
	}
	tr.setClock(latest - instant(rapid.Int64Range(1, 5_000_000).Draw(rt, "back")))
}

// ahead lets the clock jump years ahead; comeHome brings it back to where it was.
func (tr *trial) ahead(rt *rapid.T) {
	if tr.home != 0 || rapid.IntRange(0, 2).Draw(rt, "stay") > 0 {
		rt.SkipNow()
	}
	tr.home = tr.clock
	tr.setClock(tr.clock + micros(time.Duration(rapid.IntRange(800, 20_000).Draw(rt, "days"))*24*time.Hour))
}

func (tr *trial) comeHome(rt *rapid.T) {
	if tr.home == 0 {
		rt.SkipNow()
	}
	tr.pin(rt)
	tr.setClock(tr.home + drawStep(rt))
	tr.home, tr.peak = 0, tr.clock
	tr.receipts = nil
	for _, p := range tr.pools {
		tr.reserveThese(rt, "", []*modelPool{p}, []int64{drawUnits(rt, p)})
	}
	tr.pin(rt)
}

// pin charges every page, so that each has certainly seen the clock.
func (tr *trial) pin(rt *rapid.T) {
	for _, p := range tr.pools {
		tr.recordThis(rt, p, quota.Request{Charges: []quota.Charge{p.charge(1)}}, window.Never)
	}
}
