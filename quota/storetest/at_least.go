package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
	"pgregory.net/rapid"
)

// atLeast records what is missing of the first window of the pool "units", and says how
// much that was.
func atLeast(units int64, at time.Duration) action { return atLeastIn(0, units, at) }

func atLeastIn(index int, units int64, at time.Duration) action {
	return func(r *rig) string {
		c := r.charge("units", units)
		c.Window = index
		got, err := r.s.Record(context.Background(), quota.Request{Charges: []quota.Charge{c}, At: start.Add(at), AtLeast: true})
		if err != nil {
			return fault(err)
		}
		return strconv.FormatInt(got["units"], 10)
	}
}

// atLeastSince counts earlier units too.
func atLeastSince(units int64, at, since time.Duration) action {
	return func(r *rig) string {
		got, err := r.s.Record(context.Background(), quota.Request{
			Charges: []quota.Charge{r.charge("units", units)}, At: start.Add(at), AtLeast: true, Since: start.Add(since),
		})
		if err != nil {
			return fault(err)
		}
		return strconv.FormatInt(got["units"], 10)
	}
}

// Units that an upstream has counted are recorded as far as they are missing.
func testAtLeast(t *testing.T, h Harness) {
	ten := []window.Limit{ring(10, 10*time.Second, time.Second)}
	all := []window.Limit{ring(10, 10*time.Second, time.Second), exact(10, 10*time.Second), counter(100, 10*time.Second), calendar(10, window.Minute, "UTC")}
	run(t, h, []timeline{
		{"only_what_is_missing", ten, nil, []row{
			{20 * time.Second, reserve(3), "granted 3/10"},
			{21 * time.Second, atLeast(5, 15*time.Second), "2"},
			{21 * time.Second, atLeast(5, 15*time.Second), "0"},
			{21 * time.Second, atLeast(4, 15*time.Second), "0"}, // late
			{21 * time.Second, reserve(1), "granted 6/10"},
			{21 * time.Second, atLeast(6, 15*time.Second), "0"},
			{21 * time.Second, looks("units"), "6"},
		}},
		{"they_leave_at_the_reset", ten, nil, []row{
			{20 * time.Second, atLeast(5, 15*time.Second), "5"},
			{25 * time.Second, looks("units"), "5"}, // a ring is at most one precision late
			{26 * time.Second, looks("units"), "0"},
		}},
		{"of_a_bucket_the_middle_counts", ten, nil, []row{
			{15 * time.Second, reserve(3), "granted 3/10"},
			{20 * time.Second, atLeast(3, 15500*time.Millisecond), "0"},
			{20 * time.Second, atLeast(3, 15501*time.Millisecond), "3"}, // of the next bucket
			{26 * time.Second, looks("units"), "3"},
			{27 * time.Second, looks("units"), "0"},
		}},
		{"earlier_units_are_among_them_if_asked", all[1:2], nil, []row{
			{14 * time.Second, reserve(3), "granted 3/10"},
			{20 * time.Second, atLeastSince(3, 15*time.Second, 14*time.Second), "0"},
			{20 * time.Second, atLeastSince(5, 15*time.Second, 14*time.Second), "2"},
			{20 * time.Second, atLeastSince(5, 16*time.Second, 14*time.Second), "0"}, // of a reset that was read otherwise
			{20 * time.Second, atLeastSince(5, 14500*time.Millisecond, 13*time.Second), "0"},
			{20 * time.Second, atLeastSince(6, 16*time.Second, 0), "1"}, // long ago: all that counts
			{25 * time.Second, looks("units"), "1"},
			{26 * time.Second, looks("units"), "0"},
		}},
		{"in_a_ring_earlier_units_are_among_them_if_asked", ten, nil, []row{
			{14 * time.Second, reserve(3), "granted 3/10"},
			{20 * time.Second, atLeastSince(5, 15*time.Second, 14*time.Second), "2"},
			{20 * time.Second, atLeastSince(5, 17*time.Second, 14*time.Second), "0"},
			{20 * time.Second, atLeastSince(5, 20*time.Second, 0), "0"},
			{25 * time.Second, looks("units"), "2"},
			{26 * time.Second, looks("units"), "0"},
		}},
		{"earlier_units_are_not_among_them", all[1:2], nil, []row{
			{14 * time.Second, reserve(3), "granted 3/10"},
			{20 * time.Second, atLeast(3, 15*time.Second), "3"},
			{20 * time.Second, looks("units"), "6"},
			{25 * time.Second, looks("units"), "0"},
		}},
		{"of_a_window_that_has_ended_nothing", all, nil, []row{
			{80 * time.Second, atLeastIn(0, 5, 70*time.Second), "0"},
			{80 * time.Second, atLeastIn(1, 5, 70*time.Second), "0"},
			{80 * time.Second, atLeastIn(2, 5, 70*time.Second), "0"},
			{80 * time.Second, atLeastIn(3, 5, 58*time.Second), "0"}, // more than lag before the minute
			{80 * time.Second, looks("units"), "0, 0, 0, 0"},
		}},
		{"in_the_window_that_is_named", all, nil, []row{
			{61 * time.Second, reserve(3), "granted 3/10"},
			{80 * time.Second, looks("units"), "0, 0, 0, 3"},
			{80 * time.Second, atLeastIn(3, 5, 60*time.Second), "2"}, // too long ago for the others
			{80 * time.Second, looks("units"), "0, 0, 0, 5"},
			{80 * time.Second, atLeastIn(1, 4, 75*time.Second), "4"},
			{80 * time.Second, looks("units"), "4, 4, 4, 9"},
			{80 * time.Second, atLeastIn(2, 5, 75*time.Second), "1"}, // a counter: of both windows
			{80 * time.Second, looks("units"), "5, 5, 5, 10"},
			{80 * time.Second, atLeastIn(0, 5, 75*time.Second), "0"},
		}},
		{"in_the_future_they_count_now", all, nil, []row{
			{80 * time.Second, atLeast(5, time.Hour), "5"},
			{80 * time.Second, atLeast(5, time.Hour), "0"},
			{80 * time.Second, looks("units"), "5, 5, 5, 5"},
			{91 * time.Second, looks("units"), "0, 0, 5, 5"},
		}},
		// The time of a page is that of its latest units. The time at which the units were missing is not.
		{"when_the_clock_steps_back_a_ring_has_kept_what_counted", ten, nil, []row{
			{14 * time.Second, reserve(3), "granted 3/10"},
			{25 * time.Second, atLeast(5, 20*time.Second), "5"},
			{25*time.Second - time.Microsecond, looks("units"), "8"},
		}},
		{"when_the_clock_steps_back_a_log_has_kept_what_counted", all[1:2], nil, []row{
			{15 * time.Second, reserve(3), "granted 3/10"},
			{25 * time.Second, atLeast(5, 20*time.Second), "5"},
			{25*time.Second - time.Microsecond, looks("units"), "8"},
		}},
		{"when_the_clock_steps_back_a_counter_is_not_in_its_next_window", all[2:3], nil, []row{
			{0, reserve(1), "granted 1/100"},
			{30 * time.Second, atLeast(5, 30*time.Second-time.Microsecond), "5"},
			{30*time.Second - 2*time.Microsecond, looks("units"), "5"},
		}},
		{"past_the_limit", ten, nil, []row{
			{0, atLeast(15, 0), "15"},
			{0, reserve(1), "refused 15/10, retry after 11s"},
		}},
		{"nothing_is_left_where_nothing_is_missing", ten, nil, []row{
			{0, atLeast(0, 0), "0"},
			{0, func(r *rig) string { return fmt.Sprint(r.look("units")[0].Known) }, "false"},
		}},
		{"bad_input", ten, nil, []row{
			{0, atLeast(-1, 0), "bad input"},
			{0, atLeastIn(1, 1, 0), "bad input"},
			{0, atLeastIn(-1, 1, 0), "bad input"},
			{0, func(r *rig) string {
				_, err := r.s.Record(context.Background(), quota.Request{ID: "a", Charges: []quota.Charge{r.charge("units", 1)}, AtLeast: true})
				return fault(err)
			}, "bad input"},
			{0, looks("units"), "0"},
		}},
	})
	t.Run("spend_is_what_was_recorded", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, ten...)
		others := quota.Labels{Method: "others"}
		for _, units := range []int64{3, 5, 4, 5} {
			r.record(quota.Request{Charges: []quota.Charge{r.charge("units", units)}, Labels: others, At: r.now, AtLeast: true})
		}
		got, err := r.s.Spend(context.Background(), quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
		if err != nil {
			t.Fatal(err)
		}
		want := []quota.Spent{{Pool: r.charge("units", 0).Pool, Day: "2026-03-02", Labels: others, Units: 5, Calls: 2}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("spend (-want +got):\n%s", diff)
		}
	})
	t.Run("by_many_at_once_the_maximum", func(t *testing.T) { testAtLeastAtOnce(t, h) })
}

// Several processes read the same growing count, each in an order of its own.
func testAtLeastAtOnce(t *testing.T, h Harness) {
	r := newRig(t, h, exact(1000, time.Hour), counter(1000, time.Hour))
	stores := []quota.Store{r.s}
	if h.Share != nil {
		stores = append(stores, h.Share(t, r.s))
	}
	const readers, most = 8, 60
	at := r.now.Add(-time.Minute)
	var wg sync.WaitGroup
	recorded := make([]int64, readers)
	for i := range readers {
		wg.Go(func() {
			for _, units := range rand.Perm(most + 1) {
				c := r.charge("units", int64(units))
				got, err := stores[i%len(stores)].Record(context.Background(), quota.Request{Charges: []quota.Charge{c}, At: at, AtLeast: true})
				if err != nil {
					t.Error(err)
					return
				}
				recorded[i] += got["units"]
			}
		})
	}
	wg.Wait()
	var sum int64
	for _, units := range recorded {
		sum += units
	}
	if used := r.used("units"); used != most || sum != most {
		t.Errorf("%d readers of %d units recorded %d; %d count, want the maximum", readers, most, sum, used)
	}
}

// observe records what is missing of units that an upstream has counted.
func (tr *trial) observe(rt *rapid.T) {
	pools, at := tr.some(rt), tr.clock
	if rapid.Bool().Draw(rt, "past") {
		at -= drawStep(rt)
	}
	tr.called(pools...) // which may drop a page, so that its time is open
	req := quota.Request{AtLeast: true}
	for _, p := range pools {
		c := p.charge(drawUnits(rt, p))
		c.Window = rapid.IntRange(0, len(p.windows)-1).Draw(rt, "window")
		req.Charges = append(req.Charges, c)
		if p.lapsed || p.page.windows == nil { // the time of the page is open
			at = tr.clock
		}
	}
	req.At = at.Time()
	got, err := tr.store(rt).Record(context.Background(), req)
	if err != nil {
		rt.Fatalf("at %s: record at least: %v", tr.clock.Time(), err)
	}
	tr.tell(rt, "at least %s%s", names(pools, unitsOf(req.Charges)...), when(" since ", req.At))
	missing, first, some := make([]int64, len(pools)), make([]instant, len(pools)), false
	for i, p := range pools {
		now, _ := p.enter(tr.clock)
		first[i] = now
		units, from, ok := p.page.windows[req.Charges[i].Window].since(now, at)
		if missing[i] = req.Charges[i].Units - units; ok && missing[i] > 0 {
			first[i], some = from, true
		} else {
			missing[i] = 0
		}
		if got[p.pool.Name] != missing[i] {
			rt.Fatalf("at %s: recorded %d of %s, model %d", tr.clock.Time(), got[p.pool.Name], p.pool, missing[i])
		}
	}
	for i, p := range pools {
		if some {
			p.add(first[i], missing[i])
		}
	}
}
