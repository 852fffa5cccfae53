package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// testBucket tests what only a bucket does: it drains all the time.
func testBucket(t *testing.T, h Harness) {
	const second, minute = time.Second, time.Minute
	five := []window.Limit{bucket(10, 5, 10*second)} // a unit every two seconds
	shop := []window.Limit{bucket(1000, 50, second)}
	run(t, h, []timeline{
		{"a_burst_and_then_the_rate", shop, nil, []row{
			{0, reserve(1000), "granted 1000/1000"},
			{0, reserve(1), "refused 1000/1000, retry after 20ms"},
			{20*time.Millisecond - time.Microsecond, reserve(1), "refused 1000/1000, retry after 1µs"},
			{20 * time.Millisecond, reserve(1), "granted 1000/1000"},
			{20 * time.Millisecond, reserve(100), "refused 1000/1000, retry after 2s"},
			{second, looks("units"), "951"},
			{minute, reserve(1000), "granted 1000/1000"},
		}},
		{"a_page_is_kept_until_the_bucket_is_empty", []window.Limit{bucket(36_000, 1, second)}, nil, []row{
			{0, reserve(36_000), "granted 36000/36000"},
			{9 * time.Hour, aged(9*time.Hour, looks("units")), "3600"},
			{9 * time.Hour, reserve(32_401), "refused 3600/36000, retry after 1s"},
			{9 * time.Hour, reserve(18_000), "granted 21600/36000"},
			{13 * time.Hour, aged(4*time.Hour, looks("units")), "7200"},
		}},
		{"a_fraction_of_a_unit_is_not_granted", []window.Limit{bucket(10, 3, 7*second)}, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{0, reserve(1), "refused 10/10, retry after 2.333334s"},
			{2333333 * time.Microsecond, reserve(1), "refused 10/10, retry after 1µs"},
			{2333334 * time.Microsecond, reserve(1), "granted 10/10"},
			{2333334 * time.Microsecond, reserve(1), "refused 10/10, retry after 2.333333s"}, // what was left over counts
		}},
		{"all_or_nothing_beside_other_windows", []window.Limit{bucket(10, 5, 10*second), ring(15, minute, second), calendar(20, window.Minute, "UTC")}, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{10 * second, decided(reserve(6)), "refused 10/15, retry after 51s of 1m"},
			{10 * second, looks("units"), "5, 10, 10"}, // nothing was taken from the bucket
			{10 * second, reserve(5), "granted 10/10"},
			{11 * second, looks("units"), "10, 15, 15"},
		}},
		{"of_two_pools_both_must_have_room", shop, map[string][]window.Limit{"searches": five}, []row{
			{0, reserveBoth("", 1, 10), "granted 10/10 of searches 5 per 10s bucket"},
			{second, reserveBoth("", 500, 1), "refused 10/10, retry after 1s of searches 5 per 10s bucket"},
			{second, looks("units", "searches"), "0; 10"},
		}},
		{"settling_down_gives_back_what_cannot_have_drained", five, nil, []row{
			{0, reserveAs("a", 6), "granted 6/10"},
			{3 * second, looks("units"), "5"},                 // four and a half
			{11 * second, reserveAs("b", 9), "granted 10/10"}, // half a unit was left
			{11 * second, settle("a", 0), "left 6"},           // at most that half has not drained
			{14 * second, looks("units"), "8"},
			{14 * second, settle("b", 0), "back 7, left 2"}, // seven and a half
			{14 * second, looks("units"), "0"},
		}},
		{"settling_down_gives_all_back_if_the_bucket_was_never_near_empty", shop, nil, []row{
			{0, reserveAs("a", 500), "granted 500/1000"},
			{second, reserveAs("b", 400), "granted 850/1000"},
			{2 * second, reserveAs("c", 200), "granted 1000/1000"},
			{4 * second, settle("b", 100), "back 300"},
			{4 * second, settle("a", 400), "back 100"}, // of its own 100, as many may have drained
			{4 * second, settle("c", 0), "back 200"},
			{4 * second, looks("units"), "300"},
			{4 * second, reserve(700), "granted 1000/1000"},
		}},
		{"settling_down_spares_what_drained_while_the_bucket_would_have_been_empty", shop, nil, []row{
			{0, reserveAs("a", 100), "granted 100/1000"},
			{second, reserveAs("b", 100), "granted 150/1000"},
			{2 * second, reserve(900), "granted 1000/1000"},
			{3 * second, settle("a", 0), "back 50, left 50"},
			{3 * second, settle("b", 0), "back 50, left 50"}, // then 50 were drained in vain
		}},
		{"settling_down_late_gives_nothing_back", five, nil, []row{
			{0, reserveAs("a", 2), "granted 2/10"},
			{4 * second, reserve(10), "granted 10/10"},
			{4 * second, settle("a", 0), "left 2"},
			{4 * second, looks("units"), "10"},
		}},
		{"settling_up_may_exceed_the_limit", five, nil, []row{
			{0, reserveAs("a", 2), "granted 2/10"},
			{second, settle("a", 22), "charged 20"},
			{second, looks("units"), "22"},
			{second, reserve(1), "refused 22/10, retry after 25s"},
			{26 * second, reserve(1), "granted 10/10"},
		}},
		{"a_page_is_kept_for_as_long_as_its_bucket_drains", five, nil, []row{
			{0, record(4000), "ok"}, // over two hours
			{2 * time.Hour, looks("units"), "400"},
			{2 * time.Hour, reserve(1), "refused 400/10, retry after 13m2s"},
			{3 * time.Hour, reserve(10), "granted 10/10"},
		}},
		{"what_is_recorded_in_order_drains_from_when_it_was_spent", five, nil, []row{
			{0, reserve(1), "granted 1/10"},
			{minute, recordAt(20*second, 20), "ok"},
			{minute, recordAt(30*second, 4), "ok"}, // 19 and 4 of which drain for 30 seconds
			{minute, looks("units"), "4"},
			{minute, recordAt(10*second, 2), "ok"}, // older than what is known of the bucket
			{minute, looks("units"), "6"},
		}},
		{"a_correction_takes_units_out", five, nil, []row{
			{0, reserve(8), "granted 8/10"},
			{second, record(-3), "ok"},
			{second, looks("units"), "5"}, // four and a half
			{second, record(-99), "ok"},
			{second, looks("units"), "0"},
		}},
		{"a_clock_that_steps_back_drains_nothing", []window.Limit{bucket(10, 5, 10*second), ring(100, minute, second)}, nil, []row{
			{20 * second, reserve(10), "granted 10/10"},
			{10 * second, reserve(1), "refused 10/10, retry after 12s"},
			{22 * second, reserve(1), "granted 10/10"},
		}},
		{"a_clock_that_had_been_far_ahead_drains_nothing", five, nil, []row{
			{far, reserve(10), "granted 10/10"},
			{0, reserve(1), "refused 10/10, retry after 2s, rebased"},
			{2 * second, reserve(1), "granted 10/10"},
		}},
		{"another_rate_carries_the_level", five, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{second, revision(2, record(0), bucket(20, 50, 10*second)), "ok"},
			{second, revision(2, looks("units"), bucket(20, 50, 10*second)), "10"}, // nine and a half
			{2 * second, revision(2, looks("units"), bucket(20, 50, 10*second)), "5"},
			{2 * second, revision(3, record(0), ring(10, minute, second)), "ok"},
			{61 * second, revision(3, looks("units"), ring(10, minute, second)), "5"},
			{63 * second, revision(3, looks("units"), ring(10, minute, second)), "0"},
		}},
		{"a_ring_becomes_a_bucket", []window.Limit{ring(10, minute, second)}, nil, []row{
			{0, reserve(8), "granted 8/10"},
			{30 * second, revision(2, reserve(3), five...), "refused 8/10, retry after 2s"},
			{32 * second, revision(2, reserve(3), five...), "granted 10/10"},
		}},
		{"a_changed_burst_applies_at_once", five, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{0, limit(12, reserve(2)), "granted 12/12"},
			{0, limit(6, reserve(1)), "refused 12/6, retry after 14s"},
		}},
	})
	t.Run("late_calls", func(t *testing.T) { testLate(t, h) })
}

// testLate tests rings that count units for longer.
func testLate(t *testing.T, h Harness) {
	const second = time.Second
	late := []window.Limit{limited(10, window.Spec{Per: 10 * second, Precision: second, Late: 1500 * time.Millisecond})}
	run(t, h, []timeline{
		{"count_for_longer", late, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{0, reserve(1), "refused 10/10, retry after 13s"}, // a bucket, and two for late calls
			{13*second - time.Microsecond, reserve(1), "refused 10/10, retry after 1µs"},
			{13 * second, reserve(1), "granted 1/10"},
		}},
		{"are_given_back_for_longer", late, nil, []row{
			{0, reserveAs("a", 10), "granted 10/10"},
			{12 * second, settle("a", 4), "back 6"},
			{12 * second, looks("units"), "4"},
		}},
		{"a_ring_that_gets_them_keeps_its_counts", []window.Limit{ring(10, 10*second, second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{5 * second, revision(2, reserve(6), late...), "granted 10/10"},
			{17 * second, revision(2, reserve(1), late...), "refused 10/10, retry after 1s"},
			{18 * second, revision(2, reserve(10), late...), "granted 10/10"},
		}},
		{"a_ring_that_loses_them_keeps_its_buckets_and_what_is_late", late, nil, []row{
			{0, reserve(4), "granted 4/10"}, // they may be sent until 3s
			{5 * second, revision(2, reserve(6), ring(10, 10*second, second)), "granted 10/10"},
			{13*second - time.Microsecond, revision(2, looks("units"), ring(10, 10*second, second)), "10"},
			{13 * second, revision(2, looks("units"), ring(10, 10*second, second)), "6"},
			{16 * second, revision(2, looks("units"), ring(10, 10*second, second)), "0"},
		}},
	})
}

// aged runs an action after the data of the store has become older, too.
func aged(d time.Duration, do action) action {
	return func(r *rig) string {
		if r.h.Age != nil {
			r.h.Age(r.TB, r.s, d)
		}
		return do(r)
	}
}
