package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// far is a time far longer than every window: the clock then shows the year 2099.
const far = 73 * 365 * 24 * time.Hour

// Promise 8: no units are freed or lost if the clock steps back. A pool recovers if the
// clock had been far ahead.
func testTime(t *testing.T, h Harness) {
	minute := []window.Limit{exact(10, time.Minute)}
	day := []window.Limit{calendar(10, window.Day, "UTC")} // the boundary is 12h after the start
	run(t, h, []timeline{
		{"back_frees_nothing", minute, nil, []row{
			{30 * time.Second, reserve(6), "granted 6/10"},
			{20 * time.Second, reserve(4), "granted 10/10"}, // at 30s
			{20 * time.Second, reserve(1), "refused 10/10, retry after 1m10s"},
			{89 * time.Second, reserve(1), "refused 10/10, retry after 1s"},
			{90 * time.Second, reserve(10), "granted 10/10"},
		}},
		{"back_loses_nothing", []window.Limit{ring(10, time.Minute, time.Second)}, nil, []row{
			{0, reserve(6), "granted 6/10"},
			{59 * time.Second, reserve(2), "granted 8/10"},
			{58 * time.Second, reserve(2), "granted 10/10"},
			{1 * time.Second, looks("units"), "10"},
			{60 * time.Second, reserve(4), "refused 10/10, retry after 1s"},
			{61 * time.Second, reserve(6), "granted 10/10"},
		}},
		{"receipts_survive_it", minute, nil, []row{
			{30 * time.Second, reserveAs("a", 6), "granted 6/10"},
			{20 * time.Second, reserveAs("a", 6), "granted again"},
			{20 * time.Second, reserveAs("b", 4), "granted 10/10"},
			{10 * time.Second, settle("a", 2), "back 4"},
			{10 * time.Second, settle("b", 0), "back 4"},
			{10 * time.Second, looks("units"), "2"},
		}},
		{"a_calendar_does_not_go_back_to_a_period_that_ended", day, nil, []row{
			{11 * time.Hour, reserve(8), "granted 8/10"},
			{12*time.Hour + time.Minute, reserve(3), "granted 3/10"},
			{12*time.Hour - time.Minute, reserve(3), "granted 6/10"},
			{12*time.Hour - time.Minute, reserve(5), "refused 6/10, retry after 24h2m0s"},
			{36*time.Hour + time.Minute - 1000, reserve(5), "refused 6/10, retry after 1µs"},
			{36*time.Hour + time.Minute, reserve(10), "granted 10/10"},
		}},
		{"a_counter_does_not_go_back", []window.Limit{counter(10, time.Minute)}, nil, []row{
			{59 * time.Second, reserve(10), "granted 10/10"},
			{90 * time.Second, reserve(5), "granted 10/10"},
			{59 * time.Second, looks("units"), "10"},
			{59 * time.Second, reserve(1), "refused 10/10, retry after 37s"},
			{96*time.Second - time.Microsecond, reserve(1), "refused 10/10, retry after 1µs"},
			{96 * time.Second, reserve(1), "granted 10/10"},
		}},
		{"a_block_stands_until_its_time", minute, nil, []row{
			{30 * time.Second, blockFor(30*time.Second, "units"), "ok"},
			{10 * time.Second, reserve(1), "blocked, retry after 50s"},
			{60 * time.Second, reserve(1), "granted 1/10"},
		}},
		{"far_ahead_moves_all_that_was_used_to_now", minute, nil, []row{
			{far, reserve(7), "granted 7/10"},
			{0, reserve(4), "refused 7/10, retry after 1m0s, rebased"},
			{0, record(1), "ok"},
			{0, reserve(2), "granted 10/10"},
			{59 * time.Second, reserve(1), "refused 10/10, retry after 1s"},
			{60 * time.Second, reserve(10), "granted 10/10"},
		}},
		{"far_ahead_of_every_kind", []window.Limit{ring(10, time.Hour, time.Minute), exact(10, time.Hour), counter(10, time.Hour), calendar(10, window.Day, "UTC")}, nil, []row{
			{far, reserve(7), "granted 7/10"},
			{0, reserve(1), "granted 8/10, rebased"},
			{0, looks("units"), "8, 8, 8, 8"},
			{time.Hour, looks("units"), "8, 0, 8, 8"},
			{2 * time.Hour, looks("units"), "0, 0, 0, 8"},
			{13 * time.Hour, looks("units"), "0, 0, 0, 0"},
		}},
		{"far_ahead_shifts_a_block", minute, nil, []row{
			{far, reserve(1), "granted 1/10"},
			{far, blockFor(time.Hour, "units"), "ok"},
			{0, reserve(1), "blocked, retry after 1h0m0s, rebased"},
			{0, record(1), "ok"},
			{30 * time.Minute, reserve(1), "blocked, retry after 30m0s"},
			{60 * time.Minute, reserve(1), "granted 1/10"},
		}},
		{"far_ahead_shifts_a_block_also_after_2100", minute, nil, []row{
			{far + far, blockUntil(far+far+20*time.Second+3*time.Microsecond, "units"), "ok"},
			{far + 4*time.Microsecond, reserve(1), "blocked, retry after 20.000003s, rebased"},
		}},
		{"far_ahead_is_told_also_under_a_newer_book", minute, nil, []row{
			{far, reserve(7), "granted 7/10"},
			{0, revision(2, reserve(1), exact(10, time.Hour)), "granted 8/10, rebased"},
			{0, revision(2, reserve(1), exact(10, time.Hour)), "granted 9/10"},
		}},
		{"receipts_from_before_a_jump_give_nothing_back", minute, nil, []row{
			{far, reserveAs("a", 7), "granted 7/10"},
			{0, reserve(1), "granted 8/10, rebased"},
			{0, settle("a", 0), "left 7"},
			{0, looks("units"), "8"},
		}},
		{"as_far_ahead_as_its_longest_window_is_not_far", []window.Limit{exact(10, time.Second), exact(20, time.Minute)}, nil, []row{
			{60 * time.Second, reserve(7), "granted 7/10"},
			{0, reserve(3), "granted 10/10"}, // at 60s
			{0, reserve(1), "refused 10/10, retry after 1m1s"},
		}},
		{"a_microsecond_farther_is_far", minute, nil, []row{
			{60*time.Second + time.Microsecond, reserve(7), "granted 7/10"},
			{0, reserve(1), "granted 8/10, rebased"},
			{59 * time.Second, reserve(3), "refused 8/10, retry after 1s"},
			{60 * time.Second, reserve(10), "granted 10/10"},
		}},
		{"before_1970_and_after_2100_of_every_kind", []window.Limit{ring(10, time.Hour, time.Minute), exact(20, time.Hour), counter(30, time.Hour), calendar(40, window.Day, "UTC")}, nil, []row{
			{-100 * 365 * 24 * time.Hour, reserveAs("a", 7), "granted 7/10"},
			{-100 * 365 * 24 * time.Hour, reserveAs("a", 7), "granted again"},
			{-100 * 365 * 24 * time.Hour, settle("a", 3), "back 4"},
			{-100 * 365 * 24 * time.Hour, blockFor(time.Minute, "units"), "ok"},
			{-100 * 365 * 24 * time.Hour, reserve(7), "blocked, retry after 1m0s"},
			{-100*365*24*time.Hour + time.Minute, reserve(7), "granted 10/10"},
			{-100*365*24*time.Hour + time.Minute, reserve(1), "refused 10/10, retry after 1h0m0s"},
			{150 * 365 * 24 * time.Hour, looks("units"), "0, 0, 0, 0"},
			{150 * 365 * 24 * time.Hour, reserveAs("a", 7), "granted 7/10"},
			{150 * 365 * 24 * time.Hour, settle("a", 3), "back 4"},
			{150 * 365 * 24 * time.Hour, blockFor(time.Minute, "units"), "ok"},
			{150*365*24*time.Hour + time.Minute, reserve(7), "granted 10/10"},
			{150*365*24*time.Hour + time.Minute, looks("units"), "10, 10, 10, 10"},
			{151 * 365 * 24 * time.Hour, blockUntil(151*365*24*time.Hour+time.Minute, "units"), "ok"},
			{151 * 365 * 24 * time.Hour, reserve(1), "blocked, retry after 1m0s"},
			{151*365*24*time.Hour + time.Minute, reserve(1), "granted 1/10"},
		}},
		{"before_1970_and_after_2100", minute, nil, []row{
			{-60 * 365 * 24 * time.Hour, reserve(7), "granted 7/10"},
			{-60*365*24*time.Hour + 59*time.Second, reserve(4), "refused 7/10, retry after 1s"},
			{-60*365*24*time.Hour + 60*time.Second, reserve(4), "granted 4/10"},
			{80 * 365 * 24 * time.Hour, reserve(7), "granted 7/10"},
			{80 * 365 * 24 * time.Hour, reserve(4), "refused 7/10, retry after 1m0s"},
		}},
		{"one_pool_ahead_of_the_clock_and_another_not", minute, map[string][]window.Limit{"searches": {exact(5, 5*time.Second)}}, []row{
			{0, reserveOf("searches", 5), "granted 5/5"},
			{10 * time.Second, reserveOf("units", 1), "granted 1/10"},
			{0, reserveBoth("", 1, 1), "refused 5/5, retry after 5s of searches 5s log"},
			{5 * time.Second, reserveBoth("", 1, 1), "granted 1/5 of searches 5s log"},
		}},
	})
	t.Run("a_receipt_from_before_a_jump_takes_nothing_of_what_came_after", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, minute...)
		reserveAs("a", 6)(r)
		r.setTime(far)
		record(3)(r)
		r.setTime(0)
		record(1)(r)
		// far ahead the receipt had expired, so it may be gone
		if got := settle("a", 0)(r); got != "left 6" && got != "bad input" {
			t.Errorf("settle: %s", got)
		}
		if got := looks("units")(r); got != "4" {
			t.Errorf("used: %s, want 4", got)
		}
	})
	t.Run("a_repeat_tells_that_the_clock_had_been_far_ahead", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, minute...)
		r.setTime(far)
		reserveAs("a", 7)(r)
		r.setTime(0)
		if got := reserveAs("a", 7)(r); got != "granted again" || !r.last.Rebased {
			t.Errorf("reserve: %s, rebased %t; want it granted again and rebased", got, r.last.Rebased)
		}
	})
	t.Run("of_several_pools_the_latest_counts", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, minute...)
		r.pools["searches"] = minute
		r.setTime(10 * time.Second)
		reserve(1)(r)
		r.setTime(5 * time.Second)
		for _, order := range [][]string{{"units", "searches"}, {"searches", "units"}} {
			v := r.reserve(r.charge(order[0], 1), r.charge(order[1], 1))
			if !v.Allowed || !v.At.Equal(start.Add(10*time.Second)) {
				t.Errorf("%v at %s: granted %t at %s, want at 10s", order, r.now, v.Allowed, v.At)
			}
		}
	})
	// A store may have seen a later time only in a refusal. The units that it drops
	// then must still count when the clock steps back.
	for kind, w := range everyKind(10) {
		if w.Spec.InFlight() {
			continue // it is the only window of its pool
		}
		t.Run("back_behind_a_refusal_"+kind, func(t *testing.T) {
			needClock(t, h)
			r := newRig(t, h, w, exact(5, 100*time.Hour))
			r.setTime(0)
			record(10)(r)
			r.setTime(25 * time.Hour)
			if v := r.reserve(r.charge("units", 1)); v.Allowed {
				t.Fatalf("granted past the other window: %+v", v)
			}
			r.setTime(time.Minute)
			r.pools["units"][1].Limit = 100
			if v := r.reserve(r.charge("units", 1)); v.Allowed && !v.At.After(start.Add(time.Hour)) {
				t.Errorf("granted at %s beside 10 units of %s, which had been dropped", v.At, start)
			}
		})
	}
}
