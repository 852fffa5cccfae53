package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Record charges units that are already spent, at the time at which they were.
func testRecord(t *testing.T, h Harness) {
	const max = math.MaxInt32
	ten := []window.Limit{ring(10, 10*time.Second, time.Second)}
	run(t, h, []timeline{
		{"past_the_limit", ten, nil, []row{
			{0, record(8), "ok"},
			{0, record(8), "ok"},
			{0, looks("units"), "16"},
			{0, reserve(1), "refused 16/10, retry after 11s"},
		}},
		{"in_the_past_it_counts_where_it_belongs", ten, nil, []row{
			{20 * time.Second, reserve(1), "granted 1/10"},
			{20 * time.Second, recordAt(15*time.Second, 5), "ok"},
			{20 * time.Second, recordAt(10*time.Second, 2), "ok"},
			{20 * time.Second, looks("units"), "8"},
			{21 * time.Second, looks("units"), "6"},
			{26 * time.Second, looks("units"), "1"},
			{31 * time.Second, looks("units"), "0"},
		}},
		{"in_the_past_of_every_kind", []window.Limit{ring(10, 10*time.Second, time.Second), exact(10, 10*time.Second), counter(100, 10*time.Second), calendar(10, window.Minute, "UTC")}, nil, []row{
			{80 * time.Second, reserve(1), "granted 1/10"},
			{80 * time.Second, recordAt(75*time.Second, 2), "ok"},
			{80 * time.Second, recordAt(65*time.Second, 2), "ok"}, // only of this minute
			{80 * time.Second, looks("units"), "3, 3, 3, 5"},
			{85 * time.Second, looks("units"), "3, 1, 2, 5"},
			{86 * time.Second, looks("units"), "1, 1, 2, 5"},
			{121 * time.Second, looks("units"), "0, 0, 0, 0"},
		}},
		{"an_instant_that_every_window_has_left_is_ignored", ten, nil, []row{
			{20 * time.Second, reserve(1), "granted 1/10"},
			{20 * time.Second, recordAt(9*time.Second, 5), "ok"},
			{20 * time.Second, recordAt(-1000*time.Hour, 5), "ok"},
			{20 * time.Second, looks("units"), "1"},
		}},
		{"as_the_first_that_a_pool_sees", []window.Limit{ring(10, 10*time.Second, time.Second), exact(10, 10*time.Second), counter(100, 10*time.Second), calendar(10, window.Minute, "UTC")}, nil, []row{
			{80 * time.Second, recordAt(-1000*time.Hour, 5), "ok"},
			{80 * time.Second, recordAt(75*time.Second, 2), "ok"},
			{80 * time.Second, looks("units"), "2, 2, 2, 2"},
		}},
		{"a_calendar_counts_it_in_its_period", []window.Limit{calendar(10, window.Minute, "UTC")}, nil, []row{
			{90 * time.Second, recordAt(30*time.Second, 5), "ok"},
			{90 * time.Second, recordAt(59500*time.Millisecond, 3), "ok"}, // in both
			{90 * time.Second, recordAt(60*time.Second, 2), "ok"},
			{90 * time.Second, looks("units"), "5"},
		}},
		{"in_the_future_it_counts_now", ten, nil, []row{
			{20 * time.Second, recordAt(100*time.Hour, 5), "ok"},
			{20 * time.Second, looks("units"), "5"},
			{30 * time.Second, reserve(6), "refused 5/10, retry after 1s"},
			{31 * time.Second, looks("units"), "0"},
		}},
		{"negative_units_give_back_the_oldest", ten, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{5 * time.Second, reserve(4), "granted 8/10"},
			{5 * time.Second, record(-3), "ok"},
			{5 * time.Second, looks("units"), "5"},
			{11 * time.Second, looks("units"), "4"},
			{11 * time.Second, record(-1), "ok"},
			{16 * time.Second, looks("units"), "0"},
		}},
		{"negative_units_of_every_kind", []window.Limit{ring(10, 10*time.Second, time.Second), exact(10, 10*time.Second), counter(100, 10*time.Second), calendar(10, window.Minute, "UTC")}, nil, []row{
			{5 * time.Second, reserve(8), "granted 8/10"},
			{12 * time.Second, reserve(1), "granted 9/10"},
			{12 * time.Second, record(-3), "ok"},
			{12 * time.Second, looks("units"), "6, 6, 5, 6"}, // the counter: 5 x 8/10 + 1
		}},
		{"never_below_zero", ten, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{0, record(-100), "ok"},
			{0, looks("units"), "0"},
			{0, record(-max), "ok"},
			{0, reserve(11), "impossible, limit 10"},
			{0, reserve(10), "granted 10/10"},
		}},
		{"several_enormous_ones_do_not_wrap", []window.Limit{ring(max, 10*time.Second, time.Second)}, nil, []row{
			{0, record(max), "ok"},
			{0, record(max), "ok"},
			{0, record(max), "ok"},
			{0, record(max), "ok"},
			{0, refuses(1), "refused"},
			{5 * time.Second, record(max), "ok"},
			{10 * time.Second, refuses(1), "refused"},
			{11 * time.Second, refuses(1), "refused"},
			{16 * time.Second, reserve(max), "granted 2147483647/2147483647"},
		}},
		{"several_enormous_ones_do_not_wrap_in_a_counter", []window.Limit{counter(max, 10*time.Second)}, nil, []row{
			{0, record(max), "ok"},
			{0, record(max), "ok"},
			{0, record(max), "ok"},
			{10 * time.Second, refuses(1), "refused"},
			{14 * time.Second, refuses(1), "refused"},
			{20 * time.Second, reserve(max), "granted 2147483647/2147483647"},
		}},
	})
}

// refuses reserves units, and says only whether they were refused.
func refuses(units int64) action {
	return func(r *rig) string {
		if v := r.reserve(r.charge("units", units)); v.Allowed {
			return "granted"
		}
		return "refused"
	}
}
