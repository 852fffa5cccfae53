package storetest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 7: settling down gives units back where they were taken, or reports that it
// could not. Settling up charges now.
func testSettle(t *testing.T, h Harness) {
	run(t, h, []timeline{
		{"down_gives_back_in_the_bucket_of_the_call", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserveAs("a", 6), "granted 6/10"},
			{5 * time.Second, reserveAs("b", 4), "granted 10/10"},
			{5 * time.Second, settle("a", 2), "back 4"},
			{5 * time.Second, looks("units"), "6"},
			{10 * time.Second, looks("units"), "6"},
			{11 * time.Second, looks("units"), "4"}, // not below: what came back was a's, and is gone with it
			{15 * time.Second, settle("b", 1), "back 3"},
			{15 * time.Second, looks("units"), "1"},
			{16 * time.Second, looks("units"), "0"},
		}},
		{"down_after_the_window_changes_nothing_and_says_so", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserveAs("a", 6), "granted 6/10"},
			{10 * time.Second, reserve(4), "granted 10/10"},
			{11 * time.Second, settle("a", 0), "left 6"},
			{11 * time.Second, looks("units"), "4"},
			{11 * time.Second, settle("a", 0), "left 6, again"},
		}},
		{"log_gives_back_to_the_microsecond", []window.Limit{exact(10, 10*time.Second)}, nil, []row{
			{0, reserveAs("a", 6), "granted 6/10"},
			{1, reserveAs("b", 4), "granted 10/10"}, // 1ns: the same microsecond
			{10*time.Second - time.Microsecond, settle("a", 0), "back 6"},
			{10*time.Second - time.Microsecond, looks("units"), "4"},
			{10 * time.Second, settle("b", 0), "left 4"},
		}},
		{"counter_gives_back_to_the_window_before", []window.Limit{counter(10, time.Minute)}, nil, []row{
			{59 * time.Second, reserveAs("a", 10), "granted 10/10"},
			{90 * time.Second, looks("units"), "5"},
			{90 * time.Second, settle("a", 2), "back 8"},
			{90 * time.Second, looks("units"), "1"},
		}},
		{"calendar_gives_back_in_its_period_only", []window.Limit{calendar(10, window.Minute, "UTC")}, nil, []row{
			{10 * time.Second, reserveAs("a", 3), "granted 3/10"},
			{59500 * time.Millisecond, reserveAs("b", 5), "granted 8/10"}, // counts in both minutes
			{59500 * time.Millisecond, reserveAs("c", 2), "granted 10/10"},
			{59500 * time.Millisecond, settle("c", 0), "back 2"},
			{65 * time.Second, looks("units"), "5"},
			{65 * time.Second, settle("a", 0), "left 3"},
			{65 * time.Second, settle("b", 1), "back 4"},
			{65 * time.Second, looks("units"), "1"},
		}},
		{"back_is_what_the_longest_window_still_knew", []window.Limit{ring(10, 10*time.Second, time.Second), ring(100, time.Minute, time.Second)}, nil, []row{
			{0, reserveAs("a", 6), "granted 6/10"},
			{20 * time.Second, looks("units"), "0, 6"},
			{20 * time.Second, settle("a", 1), "back 5"},
			{20 * time.Second, looks("units"), "0, 1"},
		}},
		{"up_charges_now", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserveAs("a", 2), "granted 2/10"},
			{5 * time.Second, settle("a", 9), "charged 7"},
			{5 * time.Second, looks("units"), "9"},
			{11 * time.Second, looks("units"), "7"},
			{16 * time.Second, looks("units"), "0"},
		}},
		{
			"each_charge_by_itself",
			[]window.Limit{ring(100, time.Hour, time.Minute)},
			map[string][]window.Limit{"searches": {ring(10, 10*time.Second, time.Second)}},
			[]row{
				{0, reserveBoth("a", 50, 3), "granted 3/10 of searches 10s"},
				{0, reserveBoth("b", 10, 5), "granted 8/10 of searches 10s"},
				{0, settle("a", 20, 5), "back 30, charged 2"},
				{0, looks("units", "searches"), "30; 10"},
				{time.Minute, settle("b", 0, 0), "back 10, left 5"},
				{time.Minute, looks("units", "searches"), "20; 0"},
			},
		},
		{"bad_input_settles_nothing", []window.Limit{ring(10, time.Hour, time.Minute)}, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a"), "bad input"}, // it names no pool
			{0, settle("a", 1, 1), "bad input"},
			{0, settle("a", -1), "bad input"},
			{0, settle("a", window.MaxUnits+1), "bad input"},
			{0, settle("a", math.MinInt64), "bad input"},
			{0, looks("units"), "5"},
			{0, settle("a", 1), "back 4"},
		}},
	})
	t.Run("cancelled_settles_nothing", func(t *testing.T) {
		r := newRig(t, h, ring(10, time.Hour, time.Minute))
		reserveAs("a", 5)(r)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := r.s.Settle(ctx, r.tokens["a"], quota.Units{"units": 0}); err == nil {
			t.Error("settled under a cancelled context")
		}
		if got := settle("a", 1)(r); got != "back 4" {
			t.Errorf("afterwards: %s, want back 4", got)
		}
	})
}
