package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// Promise 8, if the clock steps back by more than a window and returns: what was used
// before counts for as long as it would have by a clock that had stayed.
func testSwings(t *testing.T, h Harness) {
	needClock(t, h)
	for kind, w := range everyKind(5) {
		for _, by := range []time.Duration{10 * time.Second, 100 * time.Second, 4000 * time.Second, 100 * 24 * time.Hour, far} {
			t.Run("free_nothing_of_"+kind+"_by_"+by.String(), func(t *testing.T) { swing(t, h, by, w) })
		}
	}
	minute := []window.Limit{exact(5, time.Minute)}
	run(t, h, []timeline{
		{"the_units_leave_a_window_after_the_return", minute, nil, []row{
			{0, reserve(5), "granted 5/5"},
			{-100 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{2 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{62*time.Second - time.Microsecond, reserve(1), "refused 5/5, retry after 1µs"},
			{62 * time.Second, reserve(5), "granted 5/5"},
		}},
		{"so_do_those_that_were_used_meanwhile", minute, nil, []row{
			{0, reserve(3), "granted 3/5"},
			{-100 * time.Second, reserve(1), "granted 4/5, rebased"},
			{-80 * time.Second, reserve(1), "granted 5/5"},
			{22 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{82 * time.Second, reserve(5), "granted 5/5"},
		}},
		{"a_clock_that_does_not_return_frees_them_after_a_window", minute, nil, []row{
			{0, reserve(5), "granted 5/5"},
			{-1000 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{-940 * time.Second, reserve(5), "granted 5/5"},
			{-880 * time.Second, reserve(5), "granted 5/5"},
			{-300 * time.Second, reserve(5), "refused 5/5, retry after 1m0s, rebased"}, // this may be a return
			{-240 * time.Second, reserve(5), "granted 5/5"},
		}},
		{"in_several_steps", minute, nil, []row{
			{0, reserve(5), "granted 5/5"},
			{-61 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{-200 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{-100 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{61 * time.Second, reserve(5), "granted 5/5"},
		}},
		{"so_does_what_is_found_late", minute, nil, []row{
			{0, reserve(5), "granted 5/5"},
			{-100 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{100 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{160 * time.Second, reserve(5), "granted 5/5"},
		}},
		{"but_not_after_two_windows", minute, nil, []row{
			{0, reserve(5), "granted 5/5"},
			{-100 * time.Second, reserve(1), "refused 5/5, retry after 1m0s, rebased"},
			{120 * time.Second, reserve(5), "granted 5/5, rebased"},
		}},
		{"a_block_stands_for_as_long", minute, nil, []row{
			{0, reserve(1), "granted 1/5"},
			{0, blockFor(50*time.Second, "units"), "ok"},
			{-100 * time.Second, reserve(1), "blocked, retry after 50s, rebased"},
			{10 * time.Second, reserve(1), "blocked, retry after 40s, rebased"},
			{50 * time.Second, reserve(1), "granted 2/5"},
		}},
		{"so_does_a_long_one", minute, nil, []row{
			{0, blockFor(time.Hour, "units"), "ok"},
			{-100 * time.Second, reserve(1), "blocked, retry after 1h0m0s, rebased"},
			{time.Second, reserve(1), "blocked, retry after 59m59s, rebased"},
			{time.Hour, reserve(1), "granted 1/5"},
		}},
		{"receipts_survive_it", minute, nil, []row{
			{0, reserveAs("a", 3), "granted 3/5"},
			{-100 * time.Second, reserveAs("a", 3), "granted again"},
			{time.Second, reserveAs("a", 3), "granted again"},
			{time.Second, settle("a", 0), "left 3"},
			{time.Second, looks("units"), "3"},
		}},
		{"a_slot_in_flight_is_renewed_and_ends_once", []window.Limit{inFlight(2, time.Minute)}, nil, []row{
			{0, reserveAs("a", 1), "granted 1/2"},
			{0, reserveAs("b", 1), "granted 2/2"},
			{-100 * time.Second, renews("a"), "yes"},
			{time.Second, reserve(1), "refused 3/2, retry after 1m0s, rebased"}, // the old entry of a counts once more
			{61 * time.Second, ends("a", "b"), "yes, yes"},
			{61 * time.Second, reserve(2), "granted 2/2"},
		}},
		{"under_a_newer_book", minute, nil, []row{
			{0, reserve(5), "granted 5/5"},
			{-100 * time.Second, revision(2, reserve(1), exact(5, 30*time.Second)), "refused 5/5, retry after 30s, rebased"},
			{time.Second, revision(2, reserve(1), exact(5, 30*time.Second)), "refused 5/5, retry after 30s, rebased"},
		}},
	})
	t.Run("never_over_in_true_time", func(t *testing.T) { trueTime(t, h) })
	if h.Families {
		for kind, w := range everyKind(5) {
			if w.Spec.InFlight() {
				continue
			}
			t.Run("free_nothing_of_a_member_"+kind, func(t *testing.T) {
				r := newRig(t, h, w)
				c := r.charge("", 5)
				c.Pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "a"}
				c.Windows, c.MaxKeys = r.pools["units"], 10
				r.setTime(0)
				swings(t, r, w, 4000*time.Second, c)
			})
		}
	}
}

// swing fills a pool, and lets the clock swing.
func swing(t *testing.T, h Harness, by time.Duration, w window.Limit) {
	r := newRig(t, h, w)
	r.setTime(0)
	swings(t, r, w, by, r.charge("units", 5))
}

// swings takes all units of a charge's window. Then the clock steps back and returns three
// times, within seconds, and nothing is granted. In the end all units come back.
func swings(t *testing.T, r *rig, w window.Limit, by time.Duration, c quota.Charge) {
	t.Helper()
	reserve := func() quota.Verdict {
		t.Helper()
		v, err := r.ask(quota.Request{Charges: []quota.Charge{c}})
		if err != nil {
			t.Fatalf("at %s: %v", r.now, err)
		}
		return v
	}
	if v := reserve(); !v.Allowed {
		t.Fatalf("at first: %+v", v)
	}
	if w.Spec.Drains() {
		c.Units = 2 // one drains within seconds
	}
	after := time.Duration(0)
	for range 3 {
		for _, back := range []time.Duration{by, 0} {
			after += 10 * time.Millisecond
			r.setTime(after - back)
			if v := reserve(); v.Allowed {
				t.Fatalf("granted at %s beside 5 of 5, %s after them: %+v", r.now, after, v)
			}
		}
	}
	for range 3 {
		v := reserve()
		if v.Allowed {
			return
		}
		r.set(r.now.Add(v.RetryAfter))
	}
	pages, err := r.s.Look(context.Background(), []quota.Charge{c})
	t.Errorf("at %s the units have not come back: %+v %v", r.now, pages, err)
}

// trueTime lets a clock swing at random, by more than a window, beside the true time, which
// only moves forward. At any true time a window never holds more than its limit. When the clock is right again, all
// units come back, at most three waits later.
func trueTime(t *testing.T, h Harness) {
	setFlag(t, "rapid.checks", uint64(scaled(50, 2_000)))
	t.Logf("-rapid.seed=%s", suiteSeed(t))
	kinds := []window.Limit{ring(10, time.Minute, time.Second), exact(10, time.Minute), inFlight(10, time.Minute), bucket(10, 10, time.Minute)}
	rapid.Check(t, func(rt *rapid.T) {
		s := scope{TB: t}
		defer s.close()
		w := rapid.SampledFrom(kinds).Draw(rt, "window")
		r := newRig(&s, h, w)
		var now, off instant // the true time, and how far the clock is off
		var page instant     // the page's time, or that of a block and up to one bucket later
		var log naive = &naiveList{cell: 1, keep: micros(w.Spec.Per) - 1, per: micros(w.Spec.Per)}
		if w.Spec.Drains() {
			log = newNaive(w.Spec)
		}
		reserve := func(units int64) quota.Verdict {
			r.set((window.At(start) + now + off).Time())
			v := r.reserve(r.charge("units", units))
			rt.Logf("at %s, off by %s: %s", time.Duration(now)*time.Microsecond, time.Duration(off)*time.Microsecond, tell(v, nil))
			if v.Allowed {
				log.add(now, units)
			}
			if v.Allowed || v.Rebased {
				page = now + off
			}
			if used := log.used(now); used > w.Limit {
				rt.Fatalf("%d of %d are used in true time", used, w.Limit)
			}
			return v
		}
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			reserve(rapid.Int64Range(1, 10).Draw(rt, "units"))
			step := instant(rapid.Int64Range(1, 20_000_000).Draw(rt, "passes"))
			switch rapid.IntRange(0, 3).Draw(rt, "clock") {
			case 0: // it steps back, by more than a window
				off = page - now - step - micros(w.Spec.Span()) - drawStep(rt)
				if h.GiveBack != nil {
					off -= micros(w.Spec.Precision)
				}
			case 1: // it is right again
				off, step = 0, step/1000
			}
			now += step
		}
		off = 0
		for range 3 {
			v := reserve(10)
			if v.Allowed {
				return
			}
			now += instant(v.RetryAfter.Microseconds())
		}
		if v := reserve(10); !v.Allowed {
			rt.Fatalf("the units do not come back: %s", tell(v, nil))
		}
	})
}
