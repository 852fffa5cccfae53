package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// broken is a store that can be out of reach for one operation.
type broken struct {
	quota.Store
	reserve, settle bool
	failed          int    // reservations
	meanwhile       func() // what happens while it answers a reservation, once
}

var errBroken = errors.New("connection refused")

func (b *broken) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if b.reserve {
		b.failed++
		return quota.Verdict{}, errBroken
	}
	v, err := b.Store.Reserve(ctx, r)
	if then := b.meanwhile; then != nil {
		b.meanwhile = nil
		then()
	}
	return v, err
}

func (b *broken) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	if b.settle {
		return quota.Settlement{}, errBroken
	}
	return b.Store.Settle(ctx, t, units)
}

// A hold takes its units again for a call that leaves after the end of their bucket. That
// needs no room in the pool, and charges nothing twice.
func TestLateCallsOfAHold(t *testing.T) {
	const daily = "revision: 1\nupstreams: {youtube: {pools: {units: {quota: 100, headroom: 0, windows: [{per: 24h}, {per: day}]}}, methods: {videos.list: 1}}}"
	list := quota.Call{Upstream: "youtube", Method: "videos.list"}
	type bench struct {
		t     *testing.T
		l     *quota.Ledger
		store *broken
		clock *quota.SimClock
		kinds []quota.EventKind
		h     *quota.Hold
		ctx   context.Context
	}
	// Each test begins with 4 calls held, and no room for another one.
	begin := func(t *testing.T) *bench {
		b := &bench{t: t, clock: quota.NewSimClock(noon)}
		b.store = &broken{Store: memstore.New(&memstore.Options{Clock: b.clock})}
		var err error
		b.l, err = quota.New(mustParse(t, daily), b.store, &quota.Options{
			Clock: b.clock, NotBefore: time.Minute,
			Observer: quota.ObserverFunc(func(e quota.Event) { b.kinds = append(b.kinds, e.Kind) }),
		})
		if err != nil {
			t.Fatal(err)
		}
		must(t, b.l, units(96))
		if b.h, err = b.l.Hold(t.Context(), list, 4); err != nil {
			t.Fatal(err)
		}
		b.ctx, b.kinds = b.h.Context(t.Context()), nil
		return b
	}
	counts := func(b *bench, left, want int64) {
		b.t.Helper()
		if n := b.h.Left()["units"]; n != left {
			b.t.Errorf("%d left, want %d", n, left)
		}
		if n := used(b.t, b.l, "units", "24h"); n != want {
			b.t.Errorf("used %d, want %d", n, want)
		}
	}
	closes := func(b *bench, want int64) {
		b.t.Helper()
		if err := b.h.Close(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		counts(b, 0, want)
	}

	t.Run("they are paid for, for a quarter of an hour, in a pool without room", func(t *testing.T) {
		b := begin(t)
		for i := range int64(4) {
			draw(t, b.ctx, b.l, list)
			counts(b, 3-i, 100)
			b.clock.Advance(5*time.Minute - time.Microsecond)
		}
		if _, err := b.l.Reserve(b.ctx, list); !errors.Is(err, quota.ErrRefused) {
			t.Error("a fifth call:", err)
		}
		closes(b, 100)
	})
	t.Run("what is left comes back", func(t *testing.T) {
		b := begin(t)
		draw(t, b.ctx, b.l, list)
		b.clock.Advance(2 * time.Minute)
		draw(t, b.ctx, b.l, list)
		closes(b, 98)
		if diff := cmp.Diff([]quota.EventKind{"drawn", "drawn", "settled"}, b.kinds); diff != "" {
			t.Error("what an observer sees is as if it had been one reservation:", diff)
		}
	})
	t.Run("their units leave a window after they did", func(t *testing.T) {
		b := begin(t)
		b.clock.Advance(10 * time.Minute)
		for range 4 {
			draw(t, b.ctx, b.l, list)
		}
		b.clock.Set(noon.Add(24*time.Hour + 9*time.Minute))
		counts(b, 0, 4)
		b.clock.Set(noon.Add(24*time.Hour + 11*time.Minute))
		counts(b, 0, 0)
	})
	t.Run("one that was paid for before gives nothing back", func(t *testing.T) {
		b := begin(t)
		early := draw(t, b.ctx, b.l, list)
		b.clock.Advance(2 * time.Minute)
		late := draw(t, b.ctx, b.l, list)
		if s, err := early.Release(t.Context()); err != nil || s != (quota.Settlement{Left: 1}) {
			t.Error(s, err)
		}
		counts(b, 2, 100)
		if s, err := late.Release(t.Context()); err != nil || s != (quota.Settlement{Back: 1}) {
			t.Error(s, err)
		}
		counts(b, 3, 100)
		closes(b, 97)
	})
	t.Run("one that was paid for before may cost more", func(t *testing.T) {
		b := begin(t)
		early := draw(t, b.ctx, b.l, list)
		b.clock.Advance(2 * time.Minute)
		draw(t, b.ctx, b.l, list)
		if s, err := early.Settle(t.Context(), quota.Units{"units": 4}); err != nil || s != (quota.Settlement{Charged: 3}) {
			t.Error(s, err)
		}
		counts(b, 0, 101)
	})
	t.Run("an outage lets none draw, and takes nothing", func(t *testing.T) {
		b := begin(t)
		b.clock.Advance(2 * time.Minute)
		b.store.reserve = true
		if _, err := b.l.Reserve(b.ctx, list); !errors.Is(err, quota.ErrOutage) {
			t.Error(err)
		}
		if b.store.reserve = false; b.store.failed != 1 {
			t.Errorf("it was met %d times", b.store.failed)
		}
		counts(b, 4, 100)
		draw(t, b.ctx, b.l, list)
		closes(b, 97)
	})
	t.Run("what could not be settled is settled by Close", func(t *testing.T) {
		b := begin(t)
		draw(t, b.ctx, b.l, list)
		b.clock.Advance(2 * time.Minute)
		b.store.settle = true
		draw(t, b.ctx, b.l, list)
		counts(b, 2, 103)
		if err := b.h.Close(t.Context()); !errors.Is(err, quota.ErrOutage) {
			t.Error(err)
		}
		b.store.settle = false
		closes(b, 98)
	})
	t.Run("a block by another process is found", func(t *testing.T) {
		b := begin(t)
		other, err := quota.New(b.l.Book(), b.store, &quota.Options{Clock: b.clock})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.BlockFor(t.Context(), b.h.Verdict().Pool, 25*time.Hour, "quotaExceeded"); err != nil {
			t.Fatal(err)
		}
		draw(t, b.ctx, b.l, list) // asks nobody
		b.clock.Advance(2 * time.Minute)
		if _, err := b.l.Reserve(b.ctx, list); !errors.Is(err, quota.ErrBlocked) {
			t.Error(err)
		}
		counts(b, 3, 100)
	})
	t.Run("a call that is refused meanwhile is not kept out", func(t *testing.T) {
		b := begin(t)
		if _, err := b.l.Admin().Adjust(t.Context(), b.h.Verdict().Pool, -2, "counted again"); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(2 * time.Minute)
		b.store.meanwhile = func() { // the units count twice
			if _, err := b.l.Reserve(t.Context(), units(1)); !errors.Is(err, quota.ErrRefused) {
				t.Error(err)
			}
		}
		draw(t, b.ctx, b.l, list)
		must(t, b.l, units(1))
		counts(b, 3, 99)
	})
	t.Run("one that is released meanwhile gives nothing back", func(t *testing.T) {
		b := begin(t)
		early := draw(t, b.ctx, b.l, list)
		b.clock.Advance(2 * time.Minute)
		b.store.meanwhile = func() {
			if s, err := early.Release(t.Context()); err != nil || s != (quota.Settlement{Left: 1}) {
				t.Error(s, err)
			}
		}
		draw(t, b.ctx, b.l, list)
		counts(b, 2, 100)
		closes(b, 98)
	})
}

func TestHoldEndsWithTheShortestWindow(t *testing.T) {
	for _, test := range []struct {
		windows string
		lasts   time.Duration
	}{
		{"{per: 24h}, {per: day}", 15 * time.Minute},
		{"{per: 24h}, {per: 10m}", 10 * time.Minute},
		{"{per: 1m, algorithm: log}", time.Minute},
		{"{per: 30s, algorithm: counter}", 30 * time.Second},
		{"{per: 1s}", time.Second},
	} {
		p := newPasses(t, test.windows, 10, 1)
		if h := p.hold(10); h.Ends().Sub(noon) != test.lasts {
			t.Errorf("in %s it lasts %s, want %s", test.windows, h.Ends().Sub(noon), test.lasts)
		}
	}
	p := newPasses(t, "{per: 24h}, {per: 900ms}", 10, 1)
	_, err := p.l.Hold(t.Context(), units(1), 4)
	if want := "hold youtube/units: its window of 900ms is too short for a pass; reserve each call by itself"; !errors.Is(err, quota.ErrBadInput) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if n := used(t, p.l, "units", "24h"); n != 0 {
		t.Errorf("used %d after that", n)
	}
}

// Calls that draw at once, while units are taken again, lose and gain none.
func TestLateCallsAtOnce(t *testing.T) {
	p := newPasses(t, "{per: 10m}", 1000, 1)
	var holds []*quota.Hold
	for range 4 {
		holds = append(holds, p.hold(100))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var kept int64
	for i := range 16 {
		all.Go(func() {
			ctx := holds[i%4].Context(t.Context())
			for n := range int64(20) {
				r, err := p.l.Reserve(ctx, units(1))
				if err != nil {
					t.Error(err)
					return
				}
				p.clock.Advance(50 * time.Millisecond)
				cost := n % 3 // some were not sent, some cost more
				s, err := r.Settle(ctx, quota.Units{"units": cost})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				kept += cost + s.Left
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, h := range holds {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := used(t, p.l, "units", "10m"); n != kept {
		t.Errorf("used %d, calls cost %d", n, kept)
	}
}
