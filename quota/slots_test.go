package quota_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const slotBook = `
revision: 1
upstreams:
  api:
    pools:
      at_once: {windows: [{in_flight: 2, ttl: 1m}]}
      tokens:  {quota: 100, windows: [{per: 1h}]}
    methods:
      ask:    {charge: {at_once: 1, tokens: 10}, outage: admit}
      enter:  {charge: {at_once: 1}, outage: admit}
      count:  {charge: {tokens: 10}}
`

// slotStore counts what it is asked about slots, and fails so many times.
type slotStore struct {
	quota.Store
	renewed, done atomic.Int64
	fails         atomic.Int64
	most          atomic.Int64 // tokens that it was asked about at once; one heartbeat asks at a time
}

func (s *slotStore) Slots(ctx context.Context, tokens []quota.Token, done bool) ([]bool, error) {
	if done {
		s.done.Add(1)
	} else {
		s.renewed.Add(1)
	}
	s.most.Store(max(s.most.Load(), int64(len(tokens))))
	if s.fails.Add(-1) >= 0 {
		return nil, errors.New("no route to host")
	}
	return s.Store.Slots(ctx, tokens, done)
}

// slotRig is two processes with one ledger. It runs in a bubble, which fails if a
// heartbeat is left behind.
type slotRig struct {
	*testing.T
	store *slotStore
	a, b  *quota.Ledger
	ask   quota.Call
	enter quota.Call
}

func inBubble(t *testing.T, test func(*slotRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &slotRig{T: t, store: &slotStore{Store: memstore.New(nil)}, ask: quota.Call{Method: "ask"}, enter: quota.Call{Method: "enter"}}
		for _, l := range []**quota.Ledger{&r.a, &r.b} {
			var err error
			if *l, err = quota.New(mustParse(t, slotBook), r.store, nil); err != nil {
				t.Fatal(err)
			}
		}
		test(r)
	})
}

func (r *slotRig) used(want ...int64) {
	r.Helper()
	all, err := r.a.View().Usage(r.Context(), "", "")
	if err != nil {
		r.Fatal(err)
	}
	var got []int64
	for _, u := range all {
		got = append(got, u.Windows[0].Used)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Errorf("slots and tokens (-want +got):\n%s", diff)
	}
}

func (r *slotRig) done(all ...*quota.Reservation) {
	r.Helper()
	for _, one := range all {
		if err := one.Done(r.Context()); err != nil {
			r.Error(err)
		}
	}
}

func TestSlots(t *testing.T) {
	tests := map[string]func(*slotRig){
		"done gives a slot back, once, also after settling": func(r *slotRig) {
			one, two := must(r, r.a, r.ask), must(r, r.b, r.ask)
			_, err := r.a.Reserve(r.Context(), r.ask)
			if !errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), "refused: 2 of 2 slots are taken; retry after 1m") {
				r.Errorf("a third: %v", err)
			}
			if diff := cmp.Diff(quota.Units{"tokens": 10}, one.Charges()); diff != "" {
				r.Errorf("charges (-want +got):\n%s", diff)
			}
			if s, err := one.Settle(r.Context(), quota.Units{"tokens": 4}); err != nil || s.Back != 6 {
				r.Errorf("settle: %+v %v", s, err)
			}
			r.used(2, 14)
			r.done(one, one)
			copied := *one
			r.done(&copied)
			r.used(1, 14)
			if n := r.store.done.Load(); n != 1 {
				r.Errorf("the store was asked %d times, want once", n)
			}
			three := must(r, r.a, r.ask)
			if err := r.a.Done(r.Context(), two.Token()); err != nil { // another process
				r.Error(err)
			}
			r.done(two, three)
			r.used(0, 24)
		},
		"a released call gives back all": func(r *slotRig) {
			one := must(r, r.a, r.ask)
			if s, err := one.Release(r.Context()); err != nil || s.Back != 11 {
				r.Errorf("release: %+v %v", s, err)
			}
			r.used(0, 0)
			if n := r.a.OpenSlots(); n != 0 {
				r.Errorf("%d are renewed still", n)
			}
		},
		"of slots only": func(r *slotRig) {
			one := must(r, r.a, r.enter)
			if s, err := one.Settle(r.Context(), quota.Units{}); err != nil || s != (quota.Settlement{}) {
				r.Errorf("settle: %+v %v", s, err)
			}
			r.used(1, 0)
			r.done(one)
			if s, err := must(r, r.a, r.enter).Release(r.Context()); err != nil || s.Back != 1 {
				r.Errorf("release: %+v %v", s, err)
			}
			r.used(0, 0)
		},
		"of none": func(r *slotRig) {
			r.done(must(r, r.a, quota.Call{Method: "count"}))
			if r.store.done.Load() != 0 {
				r.Error("the store was asked")
			}
		},
		"a heartbeat keeps it": func(r *slotRig) {
			one, two := must(r, r.a, r.ask), must(r, r.a, r.ask)
			for range 100 { // longer than a receipt lives
				time.Sleep(time.Minute)
				if _, err := r.b.Reserve(r.Context(), r.enter); !errors.Is(err, quota.ErrRefused) {
					r.Fatalf("while two are in flight: %v", err)
				}
			}
			if n := r.store.renewed.Load(); n > 310 {
				r.Errorf("renewed %d times in 100 minutes: one heartbeat renews all", n)
			}
			if s, err := one.Settle(r.Context(), quota.Units{"tokens": 30}); err != nil || s.Charged != 20 {
				r.Errorf("settle: %+v %v", s, err)
			}
			r.done(one, two)
		},
		"a heartbeat that failed is repeated": func(r *slotRig) {
			one, two := must(r, r.a, r.ask), must(r, r.a, r.ask)
			for range 5 {
				r.store.fails.Store(4)
				time.Sleep(time.Minute)
				if _, err := r.b.Reserve(r.Context(), r.enter); !errors.Is(err, quota.ErrRefused) {
					r.Fatalf("after lost heartbeats: %v", err)
				}
			}
			r.done(one, two)
		},
		// A store renews them in one transaction or script, and other calls wait for that.
		"a heartbeat holds up a store for a few slots at a time": func(r *slotRig) {
			l, err := quota.New(mustParse(r, strings.Replace(slotBook, "in_flight: 2", "in_flight: 1000", 1)), r.store, nil)
			if err != nil {
				r.Fatal(err)
			}
			var all []*quota.Reservation
			for range 700 {
				all = append(all, must(r, l, r.enter))
			}
			time.Sleep(3 * time.Minute)
			r.used(700, 0)
			if most := r.store.most.Load(); most > 256 {
				r.Errorf("it was asked to renew %d slots at once", most)
			}
			r.store.fails.Store(1) // of the first few
			time.Sleep(time.Minute)
			r.used(700, 0)
			r.done(all...)
		},
		"a slot that could not be given back is later": func(r *slotRig) {
			one := must(r, r.a, r.ask)
			r.store.fails.Store(2)
			if err := one.Done(r.Context()); !errors.Is(err, quota.ErrOutage) {
				r.Errorf("done: %v", err)
			}
			r.used(1, 10)
			time.Sleep(30 * time.Second)
			r.used(0, 10)
			r.done(one)
		},
		"nobody renews what nobody has": func(r *slotRig) {
			must(r, r.a, r.ask)
			for r.a.OpenSlots() > 0 {
				runtime.GC()
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			r.used(0, 10)
		},
		"do is in flight until it returns": func(r *slotRig) {
			failed := errors.New("failed")
			err := r.a.Do(r.Context(), r.ask, func(context.Context) error { r.used(1, 10); return failed })
			if !errors.Is(err, failed) {
				r.Error(err)
			}
			r.used(0, 10)
			_ = r.a.Do(r.Context(), r.ask, func(context.Context) error { return quota.ErrUnsent })
			r.used(0, 10)
		},
		"a hold has none": func(r *slotRig) {
			if _, err := r.a.Hold(r.Context(), r.ask, 2); !errors.Is(err, quota.ErrBadInput) {
				r.Errorf("hold: %v", err)
			}
			h, err := r.a.Hold(r.Context(), quota.Call{Method: "count"}, 3)
			if err != nil {
				r.Fatal(err)
			}
			one, err := r.a.Reserve(h.Context(r.Context()), r.ask) // by itself
			if err != nil {
				r.Fatal(err)
			}
			r.used(1, 40)
			r.done(one)
			if err := h.Close(r.Context()); err != nil {
				r.Error(err)
			}
		},
		"done wakes a waiting call": func(r *slotRig) {
			one, two := must(r, r.a, r.ask), must(r, r.a, r.ask)
			time.Sleep(10 * time.Second)
			start := time.Now()
			waits := make(chan *quota.Reservation)
			go func() {
				got, err := r.a.Wait(r.Context(), r.ask, 30*time.Second) // long before the first expires
				if err != nil {
					r.Error(err)
				}
				waits <- got
			}()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			slept := time.Since(start)
			r.done(one)
			got := <-waits
			if woken := time.Since(start); woken != slept { // by the bubble's clock
				r.Errorf("woken %s after the slot came back", woken-slept)
			}
			r.done(two, got)
		},
		"a waiting call asks again after short pauses": func(r *slotRig) {
			one, two := must(r, r.b, r.ask), must(r, r.b, r.ask)
			counted := &asked{Store: r.store}
			l, err := quota.New(mustParse(r, slotBook), counted, nil)
			if err != nil {
				r.Fatal(err)
			}
			var got *quota.Reservation
			waited := make(chan struct{})
			go func() {
				defer close(waited)
				if got, err = l.Wait(r.Context(), r.ask, time.Minute); err != nil {
					r.Error(err)
				}
			}()
			time.Sleep(200 * time.Millisecond)
			counted.mu.Lock()
			soon := counted.times
			counted.mu.Unlock()
			time.Sleep(20 * time.Second)
			r.done(one) // of another process
			<-waited
			if soon < 3 || counted.times < 70 || counted.times > 90 {
				r.Errorf("asked %d times in 0.2s and %d times in 20s", soon, counted.times)
			}
			r.done(two, got)
		},
		"calls that wait in line are told in time": func(r *slotRig) {
			one, two := must(r, r.a, r.ask), must(r, r.a, r.ask)
			var wg sync.WaitGroup
			for _, longest := range []time.Duration{20 * time.Second, 5 * time.Second, 100 * time.Millisecond} {
				wg.Go(func() {
					began := time.Now()
					_, err := r.a.Wait(r.Context(), r.ask, longest)
					if took := time.Since(began); !errors.Is(err, quota.ErrRefused) || took < longest || took > longest+1200*time.Millisecond {
						r.Errorf("a call that waits for %s: %v after %s", longest, err, took)
					}
				})
				time.Sleep(time.Millisecond)
			}
			wg.Wait()
			r.done(one, two)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { inBubble(t, test) })
	}
}

// While the ledger is down, there are no slots: units are recorded, and admitted calls are
// bounded by these alone.
func TestSlotsInAnOutage(t *testing.T) {
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := &asked{Store: memstore.New(nil), fails: 2}
	l, err := quota.New(mustParse(t, slotBook), store, &quota.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Reserve(t.Context(), quota.Call{Method: "ask"})
	if err != nil || !r.Outage {
		t.Fatalf("in an outage: %+v %v", r, err)
	}
	if _, err := l.Reserve(t.Context(), quota.Call{Method: "enter"}); !errors.Is(err, quota.ErrOutage) {
		t.Errorf("a slot alone: %v", err)
	}
	if err := r.Done(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := r.Settle(t.Context(), quota.Units{"tokens": 7}); err != nil {
		t.Error(err)
	}
	if err := l.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := l.View().Usage(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(u quota.Usage) bool { return u.Pool.Name == "tokens" })
	if all[i].Windows[0].Used != 7 || all[1-i].Windows[0].Used != 0 {
		t.Errorf("after the outage: %+v", all)
	}
}
