package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// A process that is ahead lets a call of another one go first that waits, unless that one is dead.
func testTurns(t *testing.T, h Harness) {
	s := h.Open(t)
	if _, can := s.(quota.NoteKeeper); !can || h.SetClock == nil {
		t.Skip("this store keeps no notes, or its clock cannot be moved")
	}
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    pools: {units: {quota: 100000, windows: [{per: 1h}]}}
    methods: {ping: {pool: units, cost: 100}, get: {pool: units, cost: 2000}, list: {pool: units, cost: 98000}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := quota.NewSimClock(start)
	stores := []quota.Store{s}
	if h.Share != nil {
		stores = append(stores, h.Share(t, s))
	}
	pass := func(d time.Duration) {
		clock.Advance(d)
		for _, s := range stores {
			h.SetClock(t, s, clock.Now())
		}
	}
	pass(0)
	open := func(s quota.Store, clock quota.Clock) *quota.Ledger {
		l, err := quota.New(costs, s, &quota.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, asleep := open(s, clock), &sleeper{SimClock: clock, sleeps: make(chan time.Duration, 100), wake: make(chan struct{})}
	other := open(stores[len(stores)-1], asleep)

	get := func(want bool, when string) {
		t.Helper()
		r, err := first.Reserve(t.Context(), quota.Call{Job: "many", Method: "get"})
		var refused *quota.RefusedError
		switch {
		case err == nil && want:
			if used := r.Verdict.Used; used > r.Limit {
				t.Errorf("%s: %d of %d units are used", when, used, r.Limit)
			}
		case err == nil:
			t.Fatalf("%s: the call goes before one that waits: %+v", when, r.Verdict)
		case want || !errors.As(err, &refused):
			t.Fatalf("%s: %v", when, err)
		case refused.RetryAfter <= 0 || refused.Blocked:
			t.Errorf("%s: refused so: %+v", when, refused.Verdict)
		}
	}
	who := func() []quota.Waiting {
		t.Helper()
		all, err := first.View().Usage(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Waiting
	}
	waiting := func(want string) {
		t.Helper()
		switch all := who(); {
		case want == "" && len(all) == 0:
		case len(all) != 1 || all[0].Flow != want || all[0].Units != 98_000 || all[0].Since.IsZero():
			t.Fatalf("%+v wait, want %q for 98000 units", all, want)
		}
	}
	get(true, "when nobody waits")
	get(true, "when nobody waits")
	waiting("")

	// A heavy call comes, for which not enough is left.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	heavy := func() {
		go func() {
			_, err := other.Wait(ctx, quota.Call{Job: "heavy", Method: "list"}, 24*time.Hour)
			done <- err
		}()
		select {
		case <-asleep.sleeps:
		case err := <-done:
			t.Fatal("the heavy call does not wait:", err)
		}
	}
	heavy()
	waiting("heavy")
	if _, err := first.Reserve(t.Context(), quota.Call{Job: "more", Method: "list"}); !errors.Is(err, quota.ErrRefused) {
		t.Fatal("more than the limit:", err)
	}
	for refused := (*quota.RefusedError)(nil); refused == nil; { // a process that is refused looks for others a moment later
		r, err := first.Reserve(t.Context(), quota.Call{Job: "many", Method: "ping"})
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if err == nil && r.Verdict.Remaining < 2000 {
			t.Fatalf("the call is never held back: %+v", r.Verdict)
		}
		time.Sleep(10 * time.Millisecond)
	}
	get(false, "while another one waits")

	// The heavy one is frozen: the others go on.
	pass(10 * time.Minute)
	get(true, "after a frozen process has shown nothing for long")
	waiting("")

	// It goes on, and is granted when its units have come back.
	pass(2 * time.Hour)
	for ended := false; !ended; {
		select {
		case asleep.wake <- struct{}{}:
		case err := <-done:
			if ended = true; err != nil {
				t.Fatal("the heavy call:", err)
			}
		case <-asleep.sleeps:
		}
	}
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting("")

	// One that gives up leaves the line.
	heavy()
	waiting("heavy")
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error("a call that was cancelled:", err)
	}
	for len(who()) > 0 { // that is written a moment later
		time.Sleep(time.Millisecond)
	}
}

// sleeper is a clock that stands still for who sleeps, until it is woken.
type sleeper struct {
	*quota.SimClock
	sleeps chan time.Duration
	wake   chan struct{}
}

func (s *sleeper) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case s.sleeps <- d:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
