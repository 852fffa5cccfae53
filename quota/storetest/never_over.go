package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 1: nothing is granted that would take a window past its limit.
func testNeverOver(t *testing.T, h Harness) {
	run(t, h, []timeline{
		{"ring_counts_its_oldest_bucket_in_full", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{900 * time.Millisecond, reserve(7), "refused 4/10, retry after 10.1s"},
			{900 * time.Millisecond, reserve(6), "granted 10/10"},
			{10 * time.Second, reserve(1), "refused 10/10, retry after 1s"},
			{11*time.Second - time.Microsecond, reserve(1), "refused 10/10, retry after 1µs"},
			{11 * time.Second, reserve(10), "granted 10/10"},
			{21 * time.Second, reserve(1), "refused 10/10, retry after 1s"},
		}},
		{"log_counts_to_the_microsecond", []window.Limit{exact(10, 10*time.Second)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{900 * time.Millisecond, reserve(6), "granted 10/10"},
			{10*time.Second - time.Microsecond, reserve(1), "refused 10/10, retry after 1µs"},
			{10 * time.Second, reserve(5), "refused 6/10, retry after 900ms"},
			{10 * time.Second, reserve(4), "granted 10/10"},
			{10900 * time.Millisecond, reserve(6), "granted 10/10"},
		}},
		{"calendar_counts_near_a_boundary_on_both_sides", []window.Limit{calendar(10, window.Minute, "UTC")}, nil, []row{
			{30 * time.Second, reserve(4), "granted 4/10"},
			{59500 * time.Millisecond, reserve(6), "granted 10/10"},
			{60500 * time.Millisecond, reserve(1), "refused 10/10, retry after 500ms"},
			{61 * time.Second, reserve(5), "refused 6/10, retry after 1m0s"},
			{61 * time.Second, reserve(4), "granted 10/10"},
			{121*time.Second - time.Microsecond, reserve(1), "refused 10/10, retry after 1µs"},
			{121 * time.Second, reserve(10), "granted 10/10"},
		}},
		{"calendar_counts_on_both_sides_also_of_a_period_in_which_nobody_asked", []window.Limit{calendar(10, window.Minute, "UTC")}, nil, []row{
			{59500 * time.Millisecond, reserve(10), "granted 10/10"},
			{120500 * time.Millisecond, reserve(1), "refused 10/10, retry after 500ms"},
			{121 * time.Second, reserve(10), "granted 10/10"},
		}},
		{"calendar_day_of_23_hours", []window.Limit{calendar(10, window.Day, "America/Los_Angeles")}, nil, []row{
			{141 * time.Hour, reserve(10), "granted 10/10"}, // 8 March, 01:00
			{162 * time.Hour, reserve(1), "refused 10/10, retry after 1h1m0s"},
			{163*time.Hour + time.Minute, reserve(10), "granted 10/10"},
		}},
		{"windows_of_a_year", []window.Limit{ring(10, window.MaxPer, 61*6*time.Minute), exact(20, window.MaxPer), counter(30, window.MaxPer)}, nil, []row{
			{0, reserve(4), "granted 4/10"},
			{4000 * time.Hour, reserve(7), "refused 4/10, retry after 4785h18m0s"},
			{4000 * time.Hour, reserve(6), "granted 10/10"},
			{8784 * time.Hour, looks("units"), "10, 6, 10"},
		}},
		{"of_several_windows_each_holds", []window.Limit{ring(10, 10*time.Second, time.Second), exact(3, time.Second)}, nil, []row{
			{0, decided(reserve(3)), "granted 3/3 of 1s log"},
			{0, decided(reserve(1)), "refused 3/3, retry after 1s of 1s log"},
			{1 * time.Second, reserve(3), "granted 3/3"},
			{2 * time.Second, reserve(3), "granted 3/3"},
			{3 * time.Second, decided(reserve(2)), "refused 9/10, retry after 8s of 10s"},
			{3 * time.Second, decided(reserve(1)), "granted 10/10 of 10s"},
		}},
		{"what_is_gone_may_pass_the_limit_and_then_nothing_is_granted", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserveAs("a", 5), "granted 5/10"},
			{0, settle("a", 12), "charged 7"},
			{0, reserve(1), "refused 12/10, retry after 11s"},
			{time.Second, record(8), "ok"},
			{time.Second, reserve(3), "refused 20/10, retry after 11s"},
			{11 * time.Second, reserve(3), "refused 8/10, retry after 1s"},
			{11 * time.Second, reserve(2), "granted 10/10"},
		}},
		{"a_changed_limit_applies_at_once", []window.Limit{ring(10, 10*time.Second, time.Second)}, nil, []row{
			{0, reserve(5), "granted 5/10"},
			{0, limit(6, reserve(2)), "refused 5/6, retry after 11s"},
			{0, limit(6, reserve(1)), "granted 6/6"},
			{0, limit(4, reserve(1)), "refused 6/4, retry after 11s"},
			{0, limit(4, reserve(5)), "impossible, limit 4"},
			{0, limit(20, reserve(14)), "granted 20/20"},
		}},
	})
	for kind, w := range everyKind(50) {
		t.Run("racing_for_units_of_a_"+kind, func(t *testing.T) {
			r := newRig(t, h, w)
			granted := r.race([]quota.Store{r.s}, 3, 50/3+5)
			if kind == "counter" && h.SetClock == nil {
				if granted > 2*50/3 {
					t.Errorf("granted %d times 3 units of 50", granted)
				}
			} else if granted > 50/3 || granted < 50/3 && h.GiveBack == nil {
				t.Errorf("granted %d times 3 units of 50, want %d", granted, 50/3)
			}
		})
	}
}

// limit runs an action with another limit of the pool "units".
func limit(n int64, do action) action {
	return func(r *rig) string {
		w := r.pools["units"][0]
		w.Limit = n
		r.pools["units"] = []window.Limit{w}
		return do(r)
	}
}

// race runs goroutines on each store. Each goroutine tries to reserve units the given
// number of times. race returns how many tries were granted. No two grants may report the
// same used units, unless they came from blocks, which were taken at different times.
func (r *rig) race(stores []quota.Store, units int64, tries int) int {
	r.Helper()
	const racers = 8
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		granted int
		used    = make(map[int64]bool)
	)
	for _, s := range stores {
		for range racers {
			wg.Go(func() {
				for range tries {
					v, err := s.Reserve(context.Background(), quota.Request{Charges: []quota.Charge{r.charge("units", units)}})
					if err != nil {
						r.Errorf("reserve: %v", err)
						return
					}
					if !v.Allowed {
						continue
					}
					mu.Lock()
					granted++
					if used[v.Used] && r.h.GiveBack == nil {
						r.Errorf("two calls were told that %d units are used after them", v.Used)
					}
					used[v.Used] = true
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	return granted
}
