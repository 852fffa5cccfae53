package storetest

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// Look reads a page and changes nothing.
func testLook(t *testing.T, h Harness) {
	t.Run("unknown", func(t *testing.T) {
		r := newRig(t, h, ring(10, time.Hour, time.Minute))
		for range 2 { // looking does not make it known
			page := r.look("units")[0]
			if page.Known || !page.Born.IsZero() || page.Pool != r.charge("units", 0).Pool {
				t.Errorf("a pool that nobody has charged: %+v", page)
			}
			if len(page.Windows) != 1 || page.Windows[0].Used != 0 || page.Windows[0].Limit != 10 || page.Windows[0].Window != "1h" {
				t.Errorf("its windows: %+v", page.Windows)
			}
		}
	})
	t.Run("known", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, ring(10, 10*time.Second, time.Second), exact(20, 10*time.Second), counter(30, 10*time.Second), calendar(40, window.Minute, "UTC"))
		reserve(4)(r)
		r.setTime(5 * time.Second)
		reserve(2)(r)
		r.setTime(12500 * time.Millisecond)
		at := func(d time.Duration) time.Time { return start.Add(d) }
		want := quota.PageState{
			Pool: r.charge("units", 0).Pool, Known: true, Born: start, Now: r.now, Revision: 1,
			Windows: []quota.WindowState{
				{Window: "10s", Used: 2, Limit: 10, NextUnits: 2, NextAt: at(16 * time.Second), ResetAt: at(16 * time.Second)},
				{Window: "10s log", Used: 2, Limit: 20, NextUnits: 2, NextAt: at(15 * time.Second), ResetAt: at(15 * time.Second)},
				{Window: "10s counter", Used: 5, Limit: 30, NextUnits: 1, NextAt: at(13333340 * time.Microsecond), ResetAt: at(20 * time.Second)},
				{Window: "minute UTC", Used: 6, Limit: 40, NextUnits: 6, NextAt: at(61 * time.Second), ResetAt: at(60 * time.Second)},
			},
		}
		got := r.look("units")[0]
		got.Born, got.Now = got.Born.UTC(), got.Now.UTC()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("page (-want +got):\n%s", diff)
		}
	})
	t.Run("units_since_an_instant", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, ring(90, 10*time.Second, time.Second), exact(90, 10*time.Second), calendar(90, window.Minute, "UTC"))
		reserve(40)(r)
		r.setTime(5 * time.Second)
		reserve(2)(r)
		r.setTime(7 * time.Second)
		reserve(3)(r)
		r.setTime(12 * time.Second)
		for since, want := range map[time.Duration][]int64{
			0:                       {5, 5, 45}, // it has left all but the calendar
			5 * time.Second:         {5, 5, 45},
			5501 * time.Millisecond: {3, 3, 45}, // of a bucket the middle counts
			8 * time.Second:         {0, 0, 45},
			-time.Hour:              {5, 5, 45},
		} {
			c := r.charge("units", 0)
			c.Since = window.At(start.Add(since))
			pages, err := r.s.Look(context.Background(), []quota.Charge{c, r.charge("units", 0)})
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for i, w := range pages[0].Windows {
				got = append(got, w.Since)
				if pages[1].Windows[i].Since != 0 {
					t.Errorf("%s: %d since no time", w.Window, pages[1].Windows[i].Since)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("since %s (-want +got):\n%s", since, diff)
			}
		}
	})
	t.Run("units_near_a_boundary_come_back_a_period_later", func(t *testing.T) {
		needClock(t, h)
		r := newRig(t, h, calendar(40, window.Minute, "UTC"))
		r.setTime(59500 * time.Millisecond)
		reserve(4)(r)
		if w := r.look("units")[0].Windows[0]; w.NextUnits != 4 || !w.NextAt.Equal(start.Add(121*time.Second)) {
			t.Errorf("%d units come back at %s, want 4 at %s", w.NextUnits, w.NextAt, start.Add(121*time.Second))
		}
	})
	t.Run("by_a_newer_book_it_lays_nothing_out", func(t *testing.T) {
		r := newRig(t, h, ring(10, time.Hour, time.Minute))
		reserve(4)(r)
		if got := revision(2, looks("units"), exact(10, time.Hour))(r); got != "4" {
			t.Errorf("by revision 2: %s, want 4", got)
		}
		if got := looks("units")(r); got != "4" {
			t.Errorf("by revision 1: %s, want 4", got)
		}
		if got := reserve(1)(r); got != "granted 5/10" {
			t.Errorf("reserve: %s", got)
		}
	})
	t.Run("several_pools_in_order", func(t *testing.T) {
		r := newRig(t, h, ring(10, time.Hour, time.Minute))
		r.pools["searches"], r.pools["uploads"] = r.pools["units"], r.pools["units"]
		reserve(4)(r)
		reserveOf("uploads", 1)(r)
		if got := looks("uploads", "searches", "units")(r); got != "1; 0; 4" {
			t.Errorf("pages: %s", got)
		}
		if pages, err := r.s.Look(context.Background(), nil); err != nil || len(pages) != 0 {
			t.Errorf("a look at nothing: %v %v", pages, err)
		}
	})
	t.Run("while_others_make_pools", func(t *testing.T) {
		r := newRig(t, h, ring(10, time.Hour, time.Minute))
		last, made := scaled(60, 3000), make(chan struct{})
		name := func(i int) string { return "units" + strconv.Itoa(i) }
		for i := range last {
			r.pools[name(i)] = r.pools["units"]
		}
		var looking sync.WaitGroup
		defer looking.Wait() // also if a call fails, so that nobody looks at a store that is closed
		defer close(made)
		for range 4 {
			looking.Go(func() {
				for done := false; !done; {
					select {
					case <-made:
						done = true
					default:
					}
					if _, err := r.s.Look(context.Background(), []quota.Charge{r.charge(name(0), 0)}); err != nil {
						t.Errorf("look: %v", err)
					}
				}
			})
		}
		for i := range last {
			r.reserve(r.charge(name(i), 1))
		}
	})
}
