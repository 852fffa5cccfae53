package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 8, if the pages of one request have different latest instants, or a page has
// seen a later instant than its windows.
func testLeaps(t *testing.T, h Harness) {
	for kind, w := range map[string]window.Limit{
		"ring":     ring(10, time.Minute, time.Second),
		"log":      exact(10, time.Minute),
		"counter":  counter(10, time.Minute),
		"calendar": calendar(10, window.Minute, "UTC"),
	} {
		t.Run("a_page_that_is_not_charged_stays_as_it_was_"+kind, func(t *testing.T) { unchargedPages(t, h, w) })
	}
	for kind, w := range everyKind(10) {
		t.Run("a_block_far_ahead_frees_nothing_"+kind, func(t *testing.T) { blockFarAhead(t, h, w) })
	}
	for kind, w := range everyKind(10) {
		t.Run("what_is_recorded_behind_a_block_counts_by_the_page's_time_"+kind, func(t *testing.T) { recordBehindBlock(t, h, w) })
	}
	half := []window.Limit{counter(10, time.Hour), limited(10, window.Spec{Period: window.Day, Zone: time.UTC, Lag: 2 * time.Hour})}
	minute := []window.Limit{exact(10, time.Minute)}
	day := []window.Limit{calendar(10, window.Day, "UTC")}
	run(t, h, []timeline{
		{"of_two_pages_only_the_one_far_ahead_moves", minute, map[string][]window.Limit{"searches": {exact(5, time.Second)}}, []row{
			{0, reserve(6), "granted 6/10"},
			{50 * time.Second, reserveOf("searches", 3), "granted 3/5"},
			{40 * time.Second, reserveBoth("", 5, 1), "refused 6/10, retry after 20s, rebased of units 1m log"},
			{30 * time.Second, reserveOf("searches", 1), "granted 4/5, rebased"},
			{30 * time.Second, reserveBoth("", 2, 1), "granted 5/5 of searches 1s log"},
			{20 * time.Second, reserveBoth("", 1, 1), "refused 5/5, retry after 1s, rebased of searches 1s log"},
		}},
		{"a_block_far_ahead_carries_what_counted_when_it_was_last_charged", half, nil, []row{
			{11 * time.Hour, reserve(8), "granted 8/10"},
			{12*time.Hour + 30*time.Minute, looks("units"), "4, 8"}, // half an hour on; the lag of the boundary
			{12*time.Hour + 30*time.Minute, record(1), "ok"},
			{far, blockFor(time.Minute, "units"), "ok"},
			{12*time.Hour + 31*time.Minute, open("units"), "ok"},
			{12*time.Hour + 31*time.Minute, looks("units"), "5, 9"},
		}},
		{"so_does_an_opening", half, nil, []row{
			{11 * time.Hour, reserve(8), "granted 8/10"},
			{12*time.Hour + 30*time.Minute, record(1), "ok"},
			{far, open("units"), "ok"},
			{12*time.Hour + 31*time.Minute, looks("units"), "5, 9"},
		}},
		{"a_block_that_is_over_already_moves_no_time", minute, nil, []row{
			{0, reserve(1), "granted 1/10"},
			{30 * time.Second, blockUntil(20*time.Second, "units"), "ok"},
			{0, whenCounted(reserve(1)), "granted 2/10 at 0s"},
			{far, blockUntil(0, "units"), "ok"},
			{0, whenCounted(reserve(1)), "granted 3/10 at 0s"},
		}},
		{"a_block_within_a_longer_one_moves_no_time", minute, nil, []row{
			{0, blockFor(time.Hour, "units"), "ok"},
			{30 * time.Second, blockFor(time.Second, "units"), "ok"},
			{0, whenCounted(reserve(1)), "blocked, retry after 1h0m0s at 0s"},
		}},
		{"a_block_moves_time", minute, nil, []row{
			{0, reserve(1), "granted 1/10"},
			{30 * time.Second, blockFor(time.Second, "units"), "ok"},
			{0, whenCounted(reserve(1)), "blocked, retry after 31s at 30s"},
			{30 * time.Second, open("units"), "ok"},
			{20 * time.Second, whenCounted(reserve(1)), "granted 2/10 at 30s"},
		}},
		{"a_refusal_far_ahead_under_a_newer_book_frees_nothing", day, map[string][]window.Limit{"searches": minute}, []row{
			{0, reserve(9), "granted 9/10"},
			{far, revision(2, reserveBoth("", 0, 11), calendar(10, window.Day, "UTC"), exact(10, time.Hour)), "impossible, limit 10 of searches 1m log"},
			{0, revision(2, reserve(2), calendar(10, window.Day, "UTC"), exact(10, time.Hour)), "refused 9/10, retry after 12h1m0s, rebased"},
		}},
		{"nor_of_a_ring_that_stays", []window.Limit{ring(10, time.Hour, time.Minute)}, nil, []row{
			{0, reserve(9), "granted 9/10"},
			{far, revision(2, reserve(11), ring(10, time.Hour, time.Minute), ring(10, time.Minute, time.Second)), "impossible, limit 10"},
			{0, revision(2, reserve(2), ring(10, time.Hour, time.Minute), ring(10, time.Minute, time.Second)), "refused 9/10, retry after 1h1m0s, rebased"},
		}},
		{"a_refusal_under_a_newer_book_is_remembered", minute, nil, []row{
			{0, reserve(9), "granted 9/10"},
			{30 * time.Second, revision(2, reserve(2)), "refused 9/10, retry after 30s"},
			{0, reserve(1), "stale book"},
			{0, whenCounted(revision(2, reserve(1))), "granted 10/10 at 0s"},
		}},
	})
}

// whenCounted adds the instant that counted to an outcome.
func whenCounted(do action) action {
	return func(r *rig) string { return do(r) + " at " + r.last.At.Sub(start).String() }
}

// unchargedPages charges a pool with this window, and later another pool. Then the clock
// steps far behind the second charge. A request for both pools must not move the first.
func unchargedPages(t *testing.T, h Harness, w window.Limit) {
	const gap, step = 10 * time.Minute, 3 * time.Second
	other := exact(5, time.Second)
	for _, touch := range []struct {
		name string
		do   action
		want string
	}{
		{"a_refusal", reserveBoth("", 11, 1), "impossible, limit 10 of units " + w.Name},
		{"a_repeat", reserveBoth("both", 1, 0), "granted again"},
		{"a_settlement", settle("both", 1, 0), "nothing"},
		{"a_block_that_is_over_already", blockUntil(0, "units", "searches"), "ok"},
		{"a_look", looks("units", "searches"), "0; 1"},
		{"a_refusal_under_a_newer_book_of_the_other", newerSearches(11), "impossible, limit 10"},
	} {
		t.Run(touch.name, func(t *testing.T) {
			needClock(t, h)
			r := newRig(t, h, w)
			r.pools["searches"] = []window.Limit{other}
			if got := reserveBoth("both", 1, 0)(r); got != "granted 1/10 of units "+w.Name && got != "granted 0/5 of searches 1s log" {
				t.Fatalf("both: %s", got)
			}
			r.setTime(gap)
			if got := reserveOf("searches", 1)(r); got != "granted 1/5" {
				t.Fatalf("the other: %s", got)
			}
			r.setTime(gap - step)
			if got := touch.do(r); got != touch.want {
				t.Fatalf("both again: %s, want %s", got, touch.want)
			}
			r.setTime(-step)
			granted := 0
			for range 50 {
				v := r.reserve(r.charge("units", 1))
				if v.Allowed {
					granted++
				}
				if !v.At.Equal(start) {
					t.Fatalf("decided at %s, want %s: %+v", v.At, start, v)
				}
			}
			if granted != 9 {
				t.Errorf("granted %d beside 1 of 10, want 9", granted)
			}
		})
	}
}

// newerSearches reserves units of both pools, the second with a newer price book.
func newerSearches(units int64) action {
	return func(r *rig) string {
		charges := []quota.Charge{r.charge("units", units), r.charge("searches", 0)}
		charges[1].Revision, charges[1].Windows = 2, []window.Limit{exact(5, 2*time.Second)}
		return tell(r.ask(quota.Request{Charges: charges}))
	}
}

// blockFarAhead fills a pool, and blocks it while the clock is far ahead. It looks at the
// pool again when the clock is back, in each process that shares the store.
func blockFarAhead(t *testing.T, h Harness, w window.Limit) {
	behindBlock(t, h, func(t *testing.T, reopen func(quota.Store) quota.Store) {
		r := newRig(t, h, w)
		reserve(10)(r)
		r.setTime(far)
		blockFor(time.Hour, "units")(r)
		r.s = reopen(r.s)
		r.setTime(time.Minute)
		open("units")(r)
		if got := looks("units")(r); got != "10" {
			t.Errorf("used: %s, want 10", got)
		}
		if v := r.reserve(r.charge("units", 1)); v.Allowed {
			t.Errorf("granted beside 10 of 10: %+v", v)
		}
	})
}

// recordBehindBlock records units that are too old for a page whose time only a block
// has moved. They stay too old after the clock has stepped back.
func recordBehindBlock(t *testing.T, h Harness, w window.Limit) {
	want := "granted 1/10"
	if w.Spec.Algorithm == window.ByCalendar {
		want = "granted 4/10" // they are of the same day
	}
	behindBlock(t, h, func(t *testing.T, reopen func(quota.Store) quota.Store) {
		r := newRig(t, h, w)
		r.setTime(2 * time.Hour)
		blockUntil(2*time.Hour+time.Microsecond, "units")(r)
		r.s = reopen(r.s)
		r.setTime(time.Hour)
		recordAt(time.Hour-2*time.Microsecond, 3)(r)
		r.setTime(time.Hour - time.Microsecond)
		open("units")(r)
		if got := reserve(1)(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// behindBlock runs a test of a blocked page twice: in the process that blocked it, and in
// another one that reads the page anew.
func behindBlock(t *testing.T, h Harness, test func(*testing.T, func(quota.Store) quota.Store)) {
	needClock(t, h)
	for _, process := range []struct {
		name string
		open func(testing.TB, quota.Store) quota.Store
	}{
		{"by_the_same_process", func(_ testing.TB, s quota.Store) quota.Store { return s }},
		{"by_another", h.Share},
	} {
		t.Run(process.name, func(t *testing.T) {
			if process.open == nil {
				t.Skip("the harness cannot open this store again")
			}
			test(t, func(s quota.Store) quota.Store { return process.open(t, s) })
		})
	}
}
