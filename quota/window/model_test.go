package window

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// timeline drives a window and its model through the same random operations and
// compares every answer.
type timeline struct {
	spec  Spec
	w     Window
	n     *naive
	clock Instant
	taken []charge
	bulk  int64 // units are drawn up to this
}

func (l *timeline) step(t *rapid.T) {
	span := l.spec.Span().Microseconds()
	switch rapid.IntRange(0, 9).Draw(t, "clock") {
	case 0, 1, 2, 3:
		l.clock += Instant(rapid.Int64Range(0, span/20).Draw(t, "forward"))
	case 4:
		l.clock += Instant(rapid.Int64Range(0, 2*span).Draw(t, "far forward"))
	case 5:
		l.clock -= Instant(rapid.Int64Range(0, span).Draw(t, "back"))
	case 6:
		_, at := Next(l.w, l.clock) // where something happens, or just before or after
		if at != Never {
			l.clock = at + Instant(rapid.Int64Range(-1, 1).Draw(t, "off"))
		}
	case 7:
		l.clock = l.w.Reset(l.clock) + Instant(rapid.Int64Range(-2*1e6, 2*1e6).Draw(t, "off"))
	}
	units := rapid.Int64Range(0, l.bulk).Draw(t, "units")
	limit := rapid.Int64Range(0, 6*l.bulk).Draw(t, "limit")
	past := l.clock - Instant(rapid.Int64Range(0, span+span/4).Draw(t, "past"))
	if len(l.taken) > 0 && rapid.Bool().Draw(t, "real") {
		c := rapid.SampledFrom(l.taken[max(0, len(l.taken)-8):]).Draw(t, "charge")
		past, units = c.at, rapid.Int64Range(0, c.units).Draw(t, "of it")
	}
	switch op := rapid.IntRange(0, 13).Draw(t, "op"); op {
	default:
		at := max(l.clock, l.n.latest)
		want := l.n.Take(l.clock, units, limit)
		if got := l.w.Take(l.clock, units, limit); got != want {
			t.Fatalf("Take(%d, %d, %d) = %t, want %t", l.clock, units, limit, got, want)
		}
		if want {
			l.taken = append(l.taken, charge{at, units})
		}
	case 8, 9:
		want := l.n.Add(past, units)
		if got := l.w.Add(past, units); got != want {
			t.Fatalf("Add(%d, %d) = %t, want %t", past, units, got, want)
		}
	case 10, 11:
		want := l.n.Give(l.clock, past, units)
		if got := l.w.Give(l.clock, past, units); got != want {
			t.Fatalf("Give(%d, %d, %d) = %d, want %d", l.clock, past, units, got, want)
		}
	case 12:
		l.n.Forget(l.clock, units)
		l.w.Forget(l.clock, units)
	case 13:
		switch rapid.IntRange(0, 2).Draw(t, "rare") {
		case 0:
			l.clock -= Instant(rapid.Int64Range(span, 100*span).Draw(t, "far back"))
			l.n.Rebase(l.clock)
			rebase(l.w, l.clock)
			l.taken = nil
		case 1:
			r := &reader{b: l.w.appendState(nil, l.n.latest), latest: l.n.latest}
			w := New(l.spec)
			if w.readState(r); r.err != nil || len(r.b) > 0 {
				t.Fatalf("state does not read back: %v", r.err)
			}
			l.w = w
		}
	}
	l.compare(t)
}

func (l *timeline) compare(t *rapid.T) {
	ahead := l.clock + Instant(rapid.Int64Range(0, 2*l.spec.Span().Microseconds()).Draw(t, "ahead"))
	for _, at := range []Instant{l.clock, ahead} {
		if got, want := l.w.Used(at), l.n.Used(at); got != want {
			t.Fatalf("Used(%d) = %d, want %d", at, got, want)
		}
		units := rapid.Int64Range(0, l.bulk).Draw(t, "weight")
		limit := rapid.Int64Range(0, 6*l.bulk).Draw(t, "of")
		if got, want := fits(l.w.Used(at), units, limit), l.n.Fits(at, units, limit); got != want {
			t.Fatalf("Fits(%d, %d, %d) = %t, want %t", at, units, limit, got, want)
		}
		got, want := l.w.Free(at, units, limit), l.n.Free(at, units, limit)
		if got != want {
			t.Fatalf("Free(%d, %d, %d) = %d, want %d", at, units, limit, got, want)
		}
		l.honest(t, at, got, units, limit)
		l.next(t, at)
	}
}

// honest checks Free by its own word.
func (l *timeline) honest(t *rapid.T, at, free Instant, units, limit int64) {
	if free == at {
		return
	}
	if free == Never {
		if units <= limit {
			t.Fatalf("Free(%d, %d, %d) is never", at, units, limit)
		}
		return
	}
	if before := max(free.Add(-l.spec.Resolution()), at, l.n.latest); before < free && fits(l.w.Used(before), units, limit) {
		t.Fatalf("%d of %d are free at %d, but they fit at %d", units, limit, free, before)
	}
	for _, later := range []Instant{free, free + 1, free + Instant(rapid.Int64Range(0, 2*l.spec.Span().Microseconds()).Draw(t, "wait"))} {
		if !fits(l.w.Used(later), units, limit) {
			t.Fatalf("%d of %d are free at %d, but they do not fit at %d", units, limit, free, later)
		}
	}
}

// next checks Next and Reset against Used.
func (l *timeline) next(t *rapid.T, at Instant) {
	used := l.w.Used(at)
	n, next := Next(l.w, at)
	reset := l.w.Reset(at)
	if l.spec.Algorithm == ByCalendar {
		if _, end := l.spec.Bounds(max(at, l.n.latest)); reset != end {
			t.Fatalf("Reset(%d) = %d, want %d", at, reset, end)
		}
	} else if last := max(reset.Add(-l.spec.Resolution()), at, l.n.latest); l.w.Used(reset) != 0 || used > 0 && l.w.Used(last) == 0 {
		t.Fatalf("Reset(%d) = %d, but then %d is used, and %d at %d", at, reset, l.w.Used(reset), l.w.Used(last), last)
	}
	if used == 0 {
		if n != 0 || next != Never {
			t.Fatalf("Next(%d) = %d, %d of nothing", at, n, next)
		}
		return
	}
	before := max(next.Add(-l.spec.Resolution()), at, l.n.latest)
	if n <= 0 || l.w.Used(next) != used-n || l.w.Used(before) != used {
		t.Fatalf("Next(%d) = %d, %d: used is %d, then %d, then %d", at, n, next, used, l.w.Used(before), l.w.Used(next))
	}
}

var modelSpecs = map[Algorithm]struct {
	naive func(Spec) *naive
	specs []Spec
}{
	Sliding: {newNaiveRing, []Spec{
		{Per: time.Minute, Precision: 10 * time.Second},
		{Per: time.Minute, Precision: time.Minute},
		{Per: 7 * time.Millisecond, Precision: time.Millisecond},
		{Per: 10 * time.Minute},
		{Per: time.Minute, Precision: 10 * time.Second, Late: 11 * time.Second},
		{Per: time.Minute, Precision: 10 * time.Second, Wide: true},
	}},
	Leaky: {newNaiveBucket, []Spec{
		{Per: time.Second, Algorithm: Leaky, Rate: 3},
		{Per: time.Millisecond, Algorithm: Leaky, Rate: 7919},
		{Per: time.Minute, Algorithm: Leaky, Rate: 40},
		{Per: 24 * time.Hour, Algorithm: Leaky, Rate: 1},
	}},
	Exact: {newNaiveLog, []Spec{
		{Per: time.Millisecond, Algorithm: Exact},
		{Per: time.Hour, Algorithm: Exact},
	}},
	Estimate: {newNaiveCounter, []Spec{
		{Per: 1500 * time.Millisecond, Algorithm: Estimate}, // a thousand steps
		{Per: time.Millisecond, Algorithm: Estimate},
	}},
	ByCalendar: {newNaiveCalendar, []Spec{
		{Period: Minute},
		{Period: Minute, Lag: 20 * time.Second},
		{Period: Hour, Lag: -1},
		{Period: Hour, Zone: mustZone("Asia/Kathmandu"), Lag: 30 * time.Minute},
		{Period: Day, Zone: mustZone("America/Los_Angeles")},
		{Period: Day, Zone: mustZone("America/St_Johns"), Lag: time.Hour},
		{Period: Day, Zone: mustZone("Antarctica/Troll"), Lag: 5 * time.Hour},
		{Period: Week, Zone: mustZone("Africa/Cairo")},
		{Period: Month, Zone: mustZone("America/Havana"), Lag: time.Hour},
	}},
}

func mustZone(name string) *time.Location {
	z, err := loadZone(name)
	if err != nil {
		panic(err)
	}
	return z
}

// starts are before 1970 and after 2100, and before changes of clocks.
var starts = []Instant{
	epoch, 0, -1, At(time.Date(1931, 5, 5, 5, 5, 5, 0, time.UTC)), At(time.Date(2144, 2, 28, 0, 0, 0, 0, time.UTC)),
	At(time.Date(2026, 3, 6, 12, 0, 0, 0, time.UTC)), At(time.Date(2006, 10, 27, 0, 0, 0, 0, time.UTC)),
	At(time.Date(2028, 12, 29, 12, 0, 0, 0, time.UTC)),
}

func TestModel(t *testing.T) {
	for algorithm, m := range modelSpecs {
		t.Run(string(algorithm), func(t *testing.T) {
			for _, s := range m.specs {
				s = normal(t, s)
				t.Run(fmt.Sprintf("%s_lag_%s", s, s.Lag), func(t *testing.T) {
					rapid.Check(t, func(t *rapid.T) {
						l := &timeline{
							spec: s, w: New(s), n: m.naive(s),
							clock: rapid.SampledFrom(starts).Draw(t, "start"),
							bulk:  rapid.SampledFrom([]int64{1, 3, 100, s.MaxLimit() / 200}).Draw(t, "bulk"),
						}
						for range rapid.IntRange(40, 60).Draw(t, "steps") {
							l.step(t)
						}
					})
				})
			}
		})
	}
}

// TestRingAgainstTheLog lays a ring beside the exact log: what the log would
// not admit the ring does not, and it is one precision late at most.
func TestRingAgainstTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := rapid.SampledFrom(modelSpecs[Sliding].specs).Draw(t, "spec").Normal()
		if err != nil {
			t.Fatal(err)
		}
		late := s
		late.Per = s.Span()
		ring, early, last := NewRing(s), newNaiveLog(s), newNaiveLog(late)
		clock := rapid.SampledFrom(starts).Draw(t, "start")
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			clock += Instant(rapid.Int64Range(0, s.Per.Microseconds()/8).Draw(t, "forward"))
			units, limit := rapid.Int64Range(0, 10).Draw(t, "units"), rapid.Int64Range(0, 40).Draw(t, "limit")
			if ring.Take(clock, units, limit) {
				if !fits(early.Used(clock), units, limit) {
					t.Fatalf("granted %d of %d at %d, the log would not have", units, limit, clock)
				}
				early.Add(clock, units)
				last.Add(clock, units)
			} else if fits(last.Used(clock), units, limit) {
				t.Fatalf("refused %d of %d at %d, more than a precision late", units, limit, clock)
			}
			if used := ring.Used(clock); used < early.Used(clock) || used > last.Used(clock) {
				t.Fatalf("used %d at %d, the log %d, a precision longer %d", used, clock, early.Used(clock), last.Used(clock))
			}
		}
	})
}

// TestPageModel drives a page with several windows: time back and forth, other
// windows now and then. The exact log of all that was sent is its judge.
func TestPageModel(t *testing.T) {
	la := mustZone("America/Los_Angeles")
	rapid.Check(t, func(t *rapid.T) {
		layout := func() (l []Limit) {
			// the first ring is never shorter than one to come
			for i, s := range [][]Spec{
				{{Per: 2 * time.Hour}, {Per: 2 * time.Hour, Precision: 10 * time.Minute}},
				{{Per: time.Hour, Precision: time.Minute}, {Per: time.Hour, Precision: 7*time.Minute + 30*time.Second}, {Per: 10 * time.Minute}},
				{{Period: Day, Zone: la}, {Period: Day, Zone: la, Lag: -1}},
			} {
				s, err := rapid.SampledFrom(s).Draw(t, "window").Normal()
				if err != nil {
					t.Fatal(err)
				}
				l = append(l, NewLimit(s, []int64{60, 40, 200}[i]))
			}
			return l
		}
		l := layout()
		clock := rapid.SampledFrom(starts).Draw(t, "start")
		p := NewPage(clock, 1, l)
		type taking struct {
			sent  Instant // upstream, as late as a hold or a leased block may
			units int64
		}
		var taken []taking
		high := clock
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "clock") {
			default:
				clock += Instant(rapid.Int64Range(0, 20*60*1e6).Draw(t, "forward"))
			case 8:
				clock -= Instant(rapid.Int64Range(0, 3600*1e6).Draw(t, "back"))
			case 9:
				clock += Instant(rapid.Int64Range(0, 9*3600*1e6).Draw(t, "far forward"))
			}
			high = max(high, clock)
			now, rebased := p.Now(clock)
			if rapid.IntRange(0, 9).Draw(t, "op") == 0 {
				l = layout()
				now, rebased = p.LayOut(clock, p.Revision+1, l)
			}
			if rebased || now < clock {
				t.Fatalf("at %d it is %d, rebased %t", clock, now, rebased)
			}
			units := rapid.Int64Range(1, 20).Draw(t, "units")
			granted := p.Fits(now, units, l)
			if granted {
				p.Add(now, units)
				slack := MaxSlack
				for _, w := range l {
					slack = min(slack, w.Spec.Slack(now))
				}
				sent := clock.Add(time.Duration(rapid.Int64Range(0, slack.Microseconds()).Draw(t, "slack")) * time.Microsecond)
				taken = append(taken, taking{sent, units})
			} else {
				free, w := p.Free(now, units, l) // -1: shut until the clock is in the period of the page
				if !p.Fits(free, units, l) || w >= 0 && p.Fits(free.Add(-l[w].Spec.Resolution()), units, l) {
					t.Fatalf("%d units at %d: free at %d, by window %d, is not honest", units, now, free, w)
				}
			}
			for i, w := range l[:2] {
				var sum int64
				for _, c := range taken {
					if c.sent.Add(w.Spec.Per) > high {
						sum += c.units
					}
				}
				if granted && sum > w.Limit { // else it may be of windows that there were
					t.Fatalf("at %d, %d of %d in %s", now, sum, w.Limit, w.Name)
				}
				if used := p.Windows()[i].Used(now); used < sum {
					t.Fatalf("at %d, %s has used %d, the log %d", now, w.Name, used, sum)
				}
			}
		}
		// all comes back, late by what a bucket of the old and one of the new are
		now, _ := p.Now(clock)
		for i, w := range l[:2] {
			if used := p.Windows()[i].Used(now.Add(w.Spec.Span() + 10*time.Minute)); used != 0 {
				t.Fatalf("%s still has used %d", w.Name, used)
			}
		}
	})
}
