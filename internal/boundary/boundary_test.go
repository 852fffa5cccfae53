package boundary_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

var start = time.Date(2026, time.November, 20, 12, 0, 3, 0, time.UTC)

func at(seconds ...float64) []time.Time {
	var all []time.Time
	for _, s := range seconds {
		all = append(all, start.Add(time.Duration(s*float64(time.Second))))
	}
	return all
}

func TestWorst(t *testing.T) {
	for _, tt := range []struct {
		name     string
		accepted []time.Time
		want     int
		from, to float64
	}{
		{"nothing", nil, 0, 0, 0},
		{"one", at(3), 1, 3, 3},
		{"at one instant", at(3, 3, 3), 3, 3, 3},
		{"a window old counts no longer", at(0, 10), 1, 0, 0},
		{"nearly a window old still counts", at(0, 9.999), 2, 0, 9.999},
		{"the fullest in the middle", at(0, 8, 11, 12, 13, 30, 35), 4, 8, 13},
		{"of two as full the first", at(0, 1, 20, 21), 2, 0, 1},
		{"a clock that stepped back", at(9, 0, 12), 2, 0, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := boundary.Worst(tt.accepted, 10*time.Second)
			want := boundary.Window{Accepted: tt.want}
			if tt.want > 0 {
				want.From, want.To = at(tt.from)[0], at(tt.to)[0]
			}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// The obvious count: for each instant all that are not yet a window old.
func TestWorstAgainstTheObviousCount(t *testing.T) {
	const per = 10 * time.Second
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var accepted []time.Time
		for range random.IntN(40) {
			accepted = append(accepted, start.Add(time.Duration(random.IntN(60))*time.Second))
		}
		want := 0
		for _, last := range accepted {
			n := 0
			for _, a := range accepted {
				if a.After(last.Add(-per)) && !a.After(last) {
					n++
				}
			}
			want = max(want, n)
		}
		if got := boundary.Worst(accepted, per).Accepted; got != want {
			t.Fatalf("%d, want %d, of %v", got, want, accepted)
		}
	}
}

// A request counts only if its call and its answer are both in the window.
func TestFullestBlamesNobodyForWhatMayBeOutside(t *testing.T) {
	const per = 10 * time.Second
	for _, tt := range []struct {
		name           string
		sent, answered []time.Time
		want           int
	}{
		{"an answer that came too late", at(0, 1, 2), at(1, 2, 10), 2},
		{"answers out of order", at(0, 1, 2, 3), at(9, 4, 3, 5), 4},
		{"a call from before the window", at(0, 8, 9), at(12, 9, 10), 2},
	} {
		if got := boundary.Fullest(tt.sent, tt.answered, per).Accepted; got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		var accepted, sent, answered []time.Time
		for range random.IntN(40) {
			at := start.Add(time.Duration(random.IntN(60)) * time.Second)
			accepted = append(accepted, at)
			sent = append(sent, at.Add(-time.Duration(random.IntN(5000))*time.Millisecond))
			answered = append(answered, at.Add(time.Duration(random.IntN(5000))*time.Millisecond))
		}
		if got, truth := boundary.Fullest(sent, answered, per).Accepted, boundary.Worst(accepted, per).Accepted; got > truth {
			t.Fatalf("%d counted, but only %d were accepted within a window, of %v to %v", got, truth, sent, answered)
		}
	}
}

// asked is what a limiter saw.
type asked struct {
	clock quota.Clock
	at    []float64 // seconds after the boundary of 12:00:20
	first int       // so many are accepted
}

func (a *asked) take(context.Context) (time.Time, bool, error) {
	now := a.clock.Now()
	a.at = append(a.at, now.Sub(start.Add(17*time.Second)).Seconds())
	return now, len(a.at) <= a.first, nil
}

func TestRunKeepsToItsTimeline(t *testing.T) {
	clock := quota.NewSimClock(start)
	r := boundary.Rate{Limit: 3, Per: 10 * time.Second}
	var all []*boundary.Trial
	for range 2 {
		limiter := &asked{clock: clock, first: 4}
		all = append(all, &boundary.Trial{Limiter: limiter.take, Timeline: boundary.Timeline{Steps: []boundary.Step{
			{After: -8 * time.Second, Ask: 3},
			{After: time.Second, Ask: 3, Give: true},
			{After: 2 * time.Second, Ask: 2},
		}}})
		defer func() {
			if want := []float64{-8, -8, -8, 1, 1, 2, 2}; !slices.Equal(limiter.at, want) {
				t.Errorf("asked at %v, want %v", limiter.at, want)
			}
		}()
	}
	if err := boundary.Run(t.Context(), clock, r, all); err != nil {
		t.Fatal(err)
	}
	for _, trial := range all {
		if !slices.Equal(trial.Asked, []int{3, 2, 2}) || !slices.Equal(trial.Given, []int{3, 1, 0}) || len(trial.Accepted) != 4 {
			t.Errorf("asked %v, given %v, accepted %v", trial.Asked, trial.Given, trial.Accepted)
		}
	}
}

// A timeline may name when windows begin, and sends a burst over several connections.
func TestRunAroundABoundaryOfItsOwn(t *testing.T) {
	clock := quota.NewSimClock(start)
	var arrived, under atomic.Int32
	all := make(chan struct{})
	one := &boundary.Trial{Parallel: 4, Timeline: boundary.Timeline{Since: start.Add(-27 * time.Second), Steps: []boundary.Step{{After: -time.Second, Ask: 8}, {After: time.Second, Ask: 8, Give: true}}}}
	one.Limiter = func(context.Context) (time.Time, bool, error) {
		if arrived.Add(1) == 4 {
			close(all)
		}
		if n := under.Add(1); n > 4 {
			t.Errorf("%d calls at once", n)
		}
		<-all // until four are under way
		under.Add(-1)
		return clock.Now(), clock.Now().Before(start.Add(3 * time.Second)), nil
	}
	if err := boundary.Run(t.Context(), clock, boundary.Rate{Limit: 8, Per: 10 * time.Second}, []*boundary.Trial{one}); err != nil {
		t.Fatal(err)
	}
	if want := start.Add(3 * time.Second); !one.Boundary.Equal(want) || !slices.Equal(one.Asked, []int{8, 1}) || !slices.Equal(one.Given, []int{8, 0}) {
		t.Errorf("boundary at %v, want %v; asked %v, given %v", one.Boundary, want, one.Asked, one.Given)
	}
}

func TestRunEndsWithItsContextAndItsLimiters(t *testing.T) {
	clock := quota.NewSimClock(start)
	r := boundary.Rate{Limit: 3, Per: 10 * time.Second}
	broken := errors.New("broken")
	one := []*boundary.Trial{{Timeline: boundary.Bursts(r), Limiter: func(context.Context) (time.Time, bool, error) {
		return time.Time{}, false, broken
	}}}
	if err := boundary.Run(t.Context(), clock, r, one); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := boundary.Run(ctx, clock, r, one); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A limiter that accepts everything is noticed, and so is a ledger with too high a limit.
func TestProveSeesWhoIsOver(t *testing.T) {
	clock := quota.NewSimClock(start)
	store := memstore.New(&memstore.Options{Clock: clock})
	r := boundary.Rate{Limit: 5, Per: 10 * time.Second}
	ours := func(limit int) func(string) (boundary.Limiter, error) {
		return func(name string) (boundary.Limiter, error) {
			return boundary.Ledger(store, clock, name, boundary.Rate{Limit: limit, Per: r.Per}, window.Sliding)
		}
	}
	results, err := boundary.Prove(t.Context(), clock, r, []boundary.Timeline{boundary.Bursts(r), boundary.Greed(r, time.Millisecond)}, []boundary.Contender{
		{ID: "none", Open: func(string) (boundary.Limiter, error) {
			return func(context.Context) (time.Time, bool, error) { return clock.Now(), true, nil }, nil
		}},
		{ID: "ring", Open: ours(5)},
		{ID: "ring6", Open: ours(6)},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{55, 5, 6} { // 5 before the boundary and 5 at each of ten instants, where there is no limit
		if got := results[i].Worst.Accepted; got != want {
			t.Errorf("%s: %d accepted at worst, want %d", results[i].ID, got, want)
		}
	}
}
