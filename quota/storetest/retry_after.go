package storetest

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Promise 3: the same call succeeds after RetryAfter, and not before.
func testHonestRetryAfter(t *testing.T, h Harness) {
	run(t, h, []timeline{
		{"computed_for_the_weight_of_the_call", []window.Limit{exact(100, time.Minute)}, nil, []row{
			{0, reserve(1), "granted 1/100"},
			{10 * time.Second, reserve(49), "granted 50/100"},
			{20 * time.Second, reserve(50), "granted 100/100"},
			{30 * time.Second, reserve(1), "refused 100/100, retry after 30s"},
			{30 * time.Second, reserve(2), "refused 100/100, retry after 40s"},
			{30 * time.Second, reserve(50), "refused 100/100, retry after 40s"},
			{30 * time.Second, reserve(51), "refused 100/100, retry after 50s"},
			{30 * time.Second, reserve(100), "refused 100/100, retry after 50s"},
		}},
		{"maximum_over_windows", []window.Limit{exact(10, time.Second), exact(12, time.Minute)}, nil, []row{
			{0, reserve(10), "granted 10/10"},
			{0, decided(reserve(2)), "refused 10/10, retry after 1s of 1s log"},
			{0, decided(reserve(3)), "refused 10/12, retry after 1m0s of 1m log"},
		}},
		{"maximum_over_pools_and_blocks", []window.Limit{exact(10, time.Second)}, map[string][]window.Limit{"searches": {exact(5, time.Minute)}}, []row{
			{0, reserveBoth("", 10, 5), "granted 10/10 of units 1s log"},
			{0, reserveBoth("", 1, 0), "refused 10/10, retry after 1s of units 1s log"},
			{0, reserveBoth("", 1, 1), "refused 5/5, retry after 1m0s of searches 1m log"},
			{0, blockFor(59*time.Second, "units"), "ok"},
			{0, reserveBoth("", 1, 1), "refused 5/5, retry after 1m0s of searches 1m log"},
			{0, blockFor(61*time.Second, "units"), "ok"},
			{0, reserveBoth("", 1, 1), "blocked, retry after 1m1s of units 1s log"},
		}},
		{"calendar_over_two_boundaries", []window.Limit{calendar(10, window.Minute, "UTC")}, nil, []row{
			{59500 * time.Millisecond, reserve(10), "granted 10/10"}, // counts in both minutes
			{59500 * time.Millisecond, reserve(1), "refused 10/10, retry after 1m1.5s"},
		}},
	})
	needClock(t, h)
	kinds := map[string][]window.Limit{
		"ring_and_calendar": {ring(40, 10*time.Second, 500*time.Millisecond), calendar(60, window.Minute, "Asia/Kathmandu")},
		"three_of_a_pool":   {ring(40, 10*time.Second, time.Second), exact(12, 3*time.Second), counter(90, time.Minute)},
	}
	for kind, w := range everyKind(40) {
		kinds[kind] = []window.Limit{w}
	}
	for kind, windows := range kinds {
		t.Run("granted_after_it_and_refused_before_it_"+kind, func(t *testing.T) {
			r := newRig(t, h, windows...)
			r.fill()
			for _, units := range []int64{1, 7, 12, 3, 11} {
				r.awaits(units)
			}
		})
	}
}

// fill reserves uneven amounts of a pool, as far as they fit.
func (r *rig) fill() {
	r.Helper()
	for i := range int64(100) {
		r.set(r.now.Add(time.Duration(i*i) * time.Millisecond))
		r.reserve(r.charge("units", i%7+1))
	}
}

// awaits checks that a call is refused now, one resolution before its RetryAfter and one
// microsecond before it, and is granted after it.
func (r *rig) awaits(units int64) {
	r.Helper()
	v := r.reserve(r.charge("units", units))
	for v.Allowed {
		v = r.reserve(r.charge("units", units))
	}
	for _, early := range []time.Duration{r.resolution(v.Window), time.Microsecond} {
		if early >= v.RetryAt.Sub(r.now) {
			continue
		}
		r.set(v.RetryAt.Add(-early))
		if got := r.reserve(r.charge("units", units)); got.Allowed {
			r.Fatalf("%d units were granted %s before retry after", units, early)
		} else if !got.RetryAt.Equal(v.RetryAt) {
			r.Fatalf("retry at was %s, %s before it is %s", v.RetryAt, early, got.RetryAt)
		}
	}
	r.set(v.RetryAt)
	if got := r.reserve(r.charge("units", units)); !got.Allowed {
		r.Fatalf("%d units were refused at retry at: %s", units, tell(got, nil))
	}
}

// resolution returns the resolution of a window of the pool "units".
func (r *rig) resolution(name string) time.Duration {
	for _, w := range r.pools["units"] {
		if w.Name == name {
			return w.Spec.Resolution()
		}
	}
	r.Fatalf("the verdict names window %q, which the pool does not have", name)
	return 0
}

// Promise 4: capacity comes back at most one precision late, never early.
func testBoundedLateness(t *testing.T, h Harness) {
	needClock(t, h)
	for _, precision := range []time.Duration{time.Millisecond, 250 * time.Millisecond, time.Second, 10 * time.Second} {
		t.Run("ring_of_"+precision.String(), func(t *testing.T) {
			const per = 10 * time.Second
			r := newRig(t, h, ring(3, per, precision))
			for i := range 40 {
				r.set(r.now.Add(time.Duration(i*i+1) * 1377 * time.Microsecond))
				first := r.now
				for v := range 3 {
					if got := r.reserve(r.charge("units", 1)); !got.Allowed {
						r.Fatalf("unit %d of 3 was refused by an empty window", v)
					}
				}
				v := r.reserve(r.charge("units", 1))
				if back := v.RetryAt.Sub(first); back < per || back > per+precision {
					t.Fatalf("capacity comes back %s after it was used, want %s to %s", back, per, per+precision)
				}
				r.set(v.RetryAt)
			}
		})
	}
	t.Run("log", func(t *testing.T) {
		r := newRig(t, h, exact(3, 10*time.Second))
		for i := range 40 {
			r.set(r.now.Add(time.Duration(i*i+1) * 1377 * time.Microsecond))
			r.reserve(r.charge("units", 3))
			v := r.reserve(quota.Charge(r.charge("units", 1)))
			if v.Allowed || v.RetryAfter != 10*time.Second {
				t.Fatalf("capacity comes back after %s, want 10s", v.RetryAfter)
			}
			r.set(v.RetryAt)
		}
	})
}
