package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// A refusal that one process meets slows all of them down, one call goes first for all of them, and what
// was learned outlasts a restart.
func testLearned(t *testing.T, h Harness) {
	s := h.Open(t)
	if _, can := s.(quota.NoteKeeper); !can || h.SetClock == nil {
		t.Skip("this store keeps no notes, or its clock cannot be moved")
	}
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams: {shop: {pools: {calls: {quota: {learn: {from: 10}}}}, methods: {get: {pool: calls, cost: 1}}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := quota.NewSimClock(start)
	stores := []quota.Store{s}
	pass := func(d time.Duration) {
		clock.Advance(d)
		for _, s := range stores {
			h.SetClock(t, s, clock.Now())
		}
	}
	pass(0)
	open := func(s quota.Store) *quota.Ledger {
		l, err := quota.New(costs, s, &quota.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := open(s)
	other := first
	if h.Share != nil {
		stores = append(stores, h.Share(t, s))
		pass(0)
		other = open(stores[1])
	}
	ask := func(l *quota.Ledger, want bool, when string) *quota.Reservation {
		t.Helper()
		r, err := l.Reserve(t.Context(), quota.Call{Method: "get"})
		var refused *quota.RefusedError
		if err == nil != want || err != nil && (!errors.As(err, &refused) || refused.Blocked) {
			t.Fatalf("%s: %v, granted %t is wanted", when, err, want)
		}
		return r
	}
	pool := quota.Pool{Upstream: "shop", Account: quota.DefaultAccount, Name: "calls"}
	r := ask(first, true, "the first call")
	if learns, err := r.Refused(t.Context(), pool, 0); !learns || err != nil {
		t.Fatal(learns, err)
	}
	pass(10 * time.Millisecond)
	ask(other, false, "another process, right after the refusal")
	pass(time.Minute)
	probe := ask(other, true, "the probe")
	pass(time.Second)
	ask(first, false, "beside the probe of another process")
	probe.Answered()
	if err := other.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	pass(time.Minute)
	ask(first, true, "after the probe has passed")
	if h.Reopen != nil {
		s = h.Reopen(t, s)
		h.SetClock(t, s, clock.Now())
		first = open(s)
	}
	all, err := first.View().Usage(t.Context(), "", "")
	if err != nil || all[0].Learned == nil || all[0].Learned.Refusals != 1 || all[0].Learned.Measured <= 0 {
		t.Errorf("after a restart: %+v %v, want what was learned from 1 refusal", all, err)
	}
}
