package storetest

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// testEnormous tests numbers of units near the ends of what 32 bits and a double hold.
func testEnormous(t *testing.T, h Harness) {
	const second, minute, most = time.Second, time.Minute, window.MaxUnits
	for _, n := range []int64{math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32 - 1, math.MaxUint32, math.MaxUint32 + 1, 1 << 40, most - 1, most} {
		kinds := map[string]window.Limit{
			"ring": ring(n, minute, second), "log": exact(n, minute), "calendar": calendar(n, window.Minute, "UTC"), "bucket": bucket(n, 1000, time.Millisecond),
		}
		if n <= 1<<32 {
			kinds["counter"] = counter(n, minute)
		}
		for kind, w := range kinds {
			t.Run(kind+"_of_"+number(n), func(t *testing.T) { fills(t, h, n, w) })
		}
	}
	wide := []window.Limit{ring(most, 10*second, second)}
	run(t, h, []timeline{
		{"a_wide_ring_stays_full_for_as_long_as_it_must", wide, nil, []row{
			{0, record(most), "ok"},
			{5 * second, record(most), "ok"},
			{5 * second, record(1), "ok"},
			{5 * second, refuses(1), "refused"},
			{11 * second, refuses(1), "refused"},
			{11 * second, looks("units"), number(most)},
			{16 * second, looks("units"), "0"},
		}},
		{"it_drops_the_oldest_units_first", wide, nil, []row{
			{0, record(5), "ok"},
			{second, record(7), "ok"},
			{3 * second, record(most - 12), "ok"},
			{4 * second, record(10), "ok"}, // in the place of the 5, and of 5 of the 7
			{4 * second, looks("units"), number(most)},
			{11 * second, looks("units"), number(most)},
			{12 * second, looks("units"), number(most - 2)},
			{14 * second, looks("units"), "10"},
			{15 * second, looks("units"), "0"},
		}},
		{"also_those_that_leave_next", wide, nil, []row{
			{0, record(5), "ok"},
			{9 * second, record(most - 5), "ok"},
			{10 * second, record(3), "ok"}, // in the place of 3 of the 5
			{10 * second, looks("units"), number(most)},
			{11 * second, looks("units"), number(most - 2)},
			{20 * second, looks("units"), "3"},
		}},
		{"and_none_that_are_newer", wide, nil, []row{
			{0, record(5), "ok"},
			{3 * second, record(most - 5), "ok"},
			{4 * second, recordAt(second, 9), "ok"}, // in the place of the 5; 4 have no place
			{4 * second, looks("units"), number(most)},
			{11 * second, looks("units"), number(most)},
			{12 * second, looks("units"), number(most - 5)},
			{14 * second, looks("units"), "0"},
		}},
		{"and_gives_nothing_back", wide, nil, []row{
			{0, reserveAs("a", most), "granted " + number(most) + "/" + number(most)},
			{second, record(5), "ok"},
			{second, settle("a", 0), "left " + number(most)},
			{second, looks("units"), number(most)},
			{11 * second, looks("units"), "5"},
		}},
		{"so_does_a_log", []window.Limit{exact(most, 10*second)}, nil, []row{
			{0, record(most), "ok"},
			{5 * second, record(most - 1), "ok"},
			{5 * second, refuses(1), "refused"},
			{10 * second, looks("units"), number(most - 1)},
			{10 * second, reserve(1), "granted " + number(most) + "/" + number(most)},
			{15 * second, looks("units"), "1"},
		}},
		{"a_page_is_laid_out_anew_for_more_and_keeps_its_buckets", []window.Limit{ring(math.MaxInt32, 10*second, second)}, nil, []row{
			{0, reserve(math.MaxInt32 - 1), "granted 2147483646/2147483647"},
			{2 * second, reserve(1), "granted 2147483647/2147483647"},
			{3 * second, limit(1<<32-2, reserve(1)), "granted 2147483648/4294967294"}, // a limit is no layout up to there
			{3 * second, revision(2, reserve(1<<40), wide...), "granted 1101659111424/9007199254740991"},
			{11 * second, revision(2, looks("units"), wide...), "1099511627778"},
			{14 * second, revision(2, looks("units"), wide...), "0"},
		}},
		{"and_back", wide, nil, []row{
			{0, reserve(5), "granted 5/" + number(most)},
			{0, reserve(1 << 40), "granted 1099511627781/" + number(most)},
			{2 * second, reserve(7), "granted 1099511627788/" + number(most)},
			{3 * second, revision(2, refuses(1), ring(1000, 10*second, second)), "refused"},
			{11 * second, revision(2, looks("units"), ring(1000, 10*second, second)), "7"},
		}},
		{"other_slots_under_the_same_revision_are_bad_input", []window.Limit{ring(10, 10*second, second)}, nil, []row{
			{0, reserve(5), "granted 5/10"},
			{0, revision(1, reserve(5), wide...), "bad input"},
			{0, looks("units"), "5"},
		}},
	})
	t.Run("spend_stops_there", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, ring(most, second, second))
		for i := range 1101 { // so many times as would wrap
			r.setTime(time.Duration(i) * 2 * second)
			if got := record(0)(r); got != "ok" {
				t.Fatalf("record: %s", got)
			}
			if v := r.reserve(r.charge("units", most)); !v.Allowed {
				t.Fatalf("reserve: %+v", v)
			}
			if i%2 == 0 {
				record(most)(r)
			}
		}
		spent := r.spent(quota.SpendQuery{})
		if len(spent) != 1 || spent[0].Units != most || spent[0].Calls != 1101+1101+551 {
			t.Errorf("spent %+v, want %d", spent, int64(most))
		}
	})
}

// fills uses a window up to a limit of n, in two calls, and settles the larger one.
func fills(t *testing.T, h Harness, n int64, w window.Limit) {
	needClock(t, h)
	r := newRig(t, h, w)
	reserveAs("a", n-2)(r)
	if got := settle("a", n-3)(r); got != "back 1" {
		t.Errorf("settled down by one: %s", got)
	}
	if v := r.reserve(r.charge("units", 4)); v.Allowed || v.Used != n-3 || v.Impossible || v.RetryAfter <= 0 {
		t.Errorf("4 units beside %d of %d: %+v", n-3, n, v)
	} else {
		r.set(v.RetryAt.Add(-time.Microsecond))
		if got := r.reserve(r.charge("units", 4)); got.Allowed || !got.RetryAt.Equal(v.RetryAt) {
			t.Errorf("1µs before: %+v", got)
		}
	}
	if v := r.reserve(r.charge("units", 3)); !v.Allowed || v.Remaining != 0 && w.Spec.Algorithm == window.Sliding {
		t.Errorf("3 units beside %d of %d: %+v", n-3, n, v)
	}
	if v := r.reserve(r.charge("units", n)); v.Allowed || v.Impossible {
		t.Errorf("%d units beside them: %+v", n, v)
	}
	if n < window.MaxUnits {
		if v := r.reserve(r.charge("units", n+1)); !v.Impossible {
			t.Errorf("%d units of %d: %+v", n+1, n, v)
		}
	}
	pools := r.look("units")
	if s := pools[0].Windows[0]; s.Used > n || s.NextUnits <= 0 || s.NextUnits > n {
		t.Errorf("look: %+v", s)
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
