package quota_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// deaf does what it is asked, but its answers to settling are lost.
type deaf struct {
	quota.Store
	deaf bool
}

func (d *deaf) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	s, err := d.Store.Settle(ctx, t, units)
	if d.deaf {
		return quota.Settlement{}, errors.New("connection reset")
	}
	return s, err
}

func TestHold(t *testing.T) {
	list := quota.Call{Upstream: "youtube", Method: "videos.list", Region: "DE"}
	left := func(h *quota.Hold) int64 { return h.Left()["units"] }

	t.Run("takes a whole pass or nothing", func(t *testing.T) {
		l, _ := newLedger(t)
		must(t, l, units(57))
		if _, err := l.Hold(t.Context(), list, 4); !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 57 {
			t.Errorf("used %d after a refused hold", n)
		}
		if _, err := l.Hold(t.Context(), list, 3); err != nil {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 60 {
			t.Errorf("used %d after a hold", n)
		}
	})
	t.Run("calls under its context draw from it, then reserve for themselves", func(t *testing.T) {
		l, _ := newLedger(t)
		h, err := l.Hold(t.Context(), list, 2)
		if err != nil {
			t.Fatal(err)
		}
		ctx := h.Context(t.Context())
		for i, want := range []int64{2, 2, 3} {
			if _, err := l.Reserve(ctx, list); err != nil {
				t.Fatal(err)
			}
			if n := used(t, l, "units", "24h"); n != want {
				t.Errorf("after call %d: used %d, want %d", i, n, want)
			}
		}
		other := quota.Call{Upstream: "youtube", Account: "staging", Method: "videos.list"}
		r, err := l.Reserve(ctx, other)
		if err != nil || r.Pool.Account != "staging" || r.Token().ID == "" {
			t.Error("another account drew from the hold:", r, err)
		}
	})
	t.Run("only closing frees what is left, once", func(t *testing.T) {
		l, _ := newLedger(t)
		h, err := l.Hold(t.Context(), list, 4)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(h.Context(t.Context()), list); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := h.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := used(t, l, "units", "24h"); n != 1 {
			t.Errorf("used %d, want 1", n)
		}
		if _, err := l.Reserve(h.Context(t.Context()), list); err != nil {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 2 {
			t.Errorf("a call under a closed hold must reserve for itself; used %d, want 2", n)
		}
	})
	t.Run("ends before a boundary and frees nothing", func(t *testing.T) {
		l, clock := newLedger(t)
		midnight := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
		clock.Set(midnight.Add(-5 * time.Minute))
		h, err := l.Hold(t.Context(), list, 4)
		if err != nil {
			t.Fatal(err)
		}
		if want := midnight.Add(-time.Minute); !h.Ends().Equal(want) {
			t.Errorf("ends %s, want %s", h.Ends(), want)
		}
		clock.Set(h.Ends())
		if _, err := l.Reserve(h.Context(t.Context()), list); err != nil {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 5 {
			t.Errorf("used %d, want the hold's 4 and 1 of its own", n)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 1 {
			t.Errorf("used %d after closing, want 1", n)
		}
		_, err = l.Hold(t.Context(), list, 1)
		var refused *quota.RefusedError
		if !errors.As(err, &refused) || !refused.RetryAt.Equal(midnight) {
			t.Errorf("a hold within the lag of a boundary: %v", err)
		}
	})
	for _, c := range []struct {
		name, windows     string
		take, hold, retry time.Duration // since midnight
	}{
		{"near a boundary waits for the period before, too", "{per: day}", -12 * time.Hour, -30 * time.Second, time.Minute},
		{"is not told to come when it would end at once", "{per: day, quota: 100}, {per: 1h}", -time.Hour - 20*time.Second, -time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
			clock := quota.NewSimClock(midnight.Add(c.take))
			book := mustParse(t, "revision: 1\nupstreams: {youtube: {pools: {units: {quota: 10, windows: ["+c.windows+"]}}}}")
			l, err := quota.New(book, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			must(t, l, units(5))
			for _, at := range []time.Duration{c.hold, c.retry - time.Microsecond} {
				clock.Set(midnight.Add(at))
				_, err := l.Hold(t.Context(), units(8), 1)
				var refused *quota.RefusedError
				if want := midnight.Add(c.retry); !errors.As(err, &refused) || !refused.RetryAt.Equal(want) || refused.RetryAfter != want.Sub(clock.Now()) {
					t.Fatalf("at %s: %v", clock.Now(), err)
				}
			}
			clock.Set(midnight.Add(c.retry))
			if _, err := l.Hold(t.Context(), units(8), 1); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("near a boundary costs nothing", func(t *testing.T) {
		l, clock := newLedger(t)
		clock.Set(time.Date(2026, 11, 21, 7, 59, 30, 0, time.UTC))
		if _, err := l.Hold(t.Context(), list, 4); !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 0 {
			t.Errorf("used %d", n)
		}
	})
	t.Run("an id draws once", func(t *testing.T) {
		l, _ := newLedger(t)
		h, err := l.Hold(t.Context(), units(1), 10)
		if err != nil {
			t.Fatal(err)
		}
		ctx := h.Context(t.Context())
		call := units(3)
		call.ID = "page-2"
		first, again := draw(t, ctx, l, call), draw(t, ctx, l, call)
		if first.Repeat || !again.Repeat || again.ID != "page-2" || left(h) != 7 {
			t.Errorf("first %+v, again %+v, left %d", first.Verdict, again.Verdict, left(h))
		}
		if s, err := again.Settle(ctx, quota.Units{"units": 1}); err != nil || s != (quota.Settlement{Back: 2}) {
			t.Error(s, err)
		}
		if s, err := first.Release(ctx); err != nil || s != (quota.Settlement{Back: 2, Repeat: true}) || left(h) != 9 {
			t.Error(s, err, left(h))
		}
		call.ID = "page-3"
		if _, err := draw(t, ctx, l, call).Release(ctx); err != nil {
			t.Fatal(err)
		}
		if r := draw(t, ctx, l, call); r.Repeat || left(h) != 6 {
			t.Errorf("after a release an id is free again: %+v, left %d", r.Verdict, left(h))
		}
	})
	t.Run("lasts 15 minutes at most", func(t *testing.T) {
		l, clock := newLedger(t)
		h, err := l.Hold(t.Context(), list, 4)
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(15 * time.Minute)
		if _, err := l.Reserve(h.Context(t.Context()), list); err != nil {
			t.Fatal(err)
		}
		if left(h) != 4 {
			t.Errorf("drew from a hold that had ended: %d left", left(h))
		}
	})
	t.Run("a drawn call is settled with the hold", func(t *testing.T) {
		l, _ := newLedger(t)
		h, err := l.Hold(t.Context(), units(10), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx := h.Context(t.Context())
		down := draw(t, ctx, l, units(4))
		if s, err := down.Settle(ctx, quota.Units{"units": 1}); err != nil || s != (quota.Settlement{Back: 3}) || left(h) != 9 {
			t.Error(s, err, left(h))
		}
		if s, err := down.Release(ctx); err != nil || s != (quota.Settlement{Back: 3, Repeat: true}) || left(h) != 9 {
			t.Error(s, err, left(h))
		}
		up := draw(t, ctx, l, units(4))
		if s, err := up.Settle(ctx, quota.Units{"units": 12}); err != nil || s != (quota.Settlement{Charged: 8}) || left(h) != 0 {
			t.Error(s, err, left(h))
		}
		if n := used(t, l, "units", "24h"); n != 13 {
			t.Errorf("used %d, want the 1 and the 12 that the calls cost", n)
		}
	})
	t.Run("one call of several pools draws from each", func(t *testing.T) {
		l, _ := newLedger(t)
		search := quota.Call{Upstream: "youtube", Method: "search.list"}
		h, err := l.Hold(t.Context(), search, 2)
		if err != nil {
			t.Fatal(err)
		}
		draw(t, h.Context(t.Context()), l, search)
		if diff := cmp.Diff(map[string]int64{"units": 20, "searches": 1}, h.Left()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("an id of the caller's would be a second purse", func(t *testing.T) {
		l, _ := newLedger(t)
		c := list
		c.ID = "run-1"
		if _, err := l.Hold(t.Context(), c, 4); !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
	})
	t.Run("a close whose answer is lost stops the drawing", func(t *testing.T) {
		clock := quota.NewSimClock(noon)
		store := &deaf{Store: memstore.New(&memstore.Options{Clock: clock})}
		l, err := quota.New(mustParse(t, testBook), store, &quota.Options{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.Hold(t.Context(), list, 4)
		if err != nil {
			t.Fatal(err)
		}
		store.deaf = true
		if err := h.Close(t.Context()); !errors.Is(err, quota.ErrOutage) {
			t.Fatal(err)
		}
		store.deaf = false
		if _, err := l.Reserve(h.Context(t.Context()), list); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := used(t, l, "units", "24h"); n != 1 {
			t.Errorf("used %d after one call that was sent", n)
		}
	})
	t.Run("a draw is checked as a reservation is", func(t *testing.T) {
		l, _ := newLedger(t)
		h, err := l.Hold(t.Context(), list, 4)
		if err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancel(h.Context(t.Context()))
		cancel()
		if _, err := l.Reserve(cancelled, list); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c := list
		c.ID = "a\x00b"
		if _, err := l.Reserve(h.Context(t.Context()), c); !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
		if left(h) != 4 {
			t.Errorf("%d left", left(h))
		}
	})
	t.Run("nothing is drawn while its pool is blocked", func(t *testing.T) {
		l, clock := newLedger(t)
		search := quota.Call{Upstream: "youtube", Method: "search.list"}
		h, err := l.Hold(t.Context(), search, 2)
		if err != nil {
			t.Fatal(err)
		}
		ctx := h.Context(t.Context())
		searches := quota.Pool{Upstream: "youtube", Account: "default", Name: "searches"}
		draw(t, ctx, l, search)
		if err := l.BlockFor(ctx, searches, time.Minute, "quotaExceeded"); err != nil {
			t.Fatal(err)
		}
		if err := l.BlockFor(ctx, searches, time.Second, "quotaExceeded"); err != nil { // the later one stands
			t.Fatal(err)
		}
		draw(t, ctx, l, units(1)) // the other pool is open
		clock.Advance(59 * time.Second)
		if _, err := l.Reserve(ctx, search); !errors.Is(err, quota.ErrBlocked) {
			t.Error(err)
		}
		if diff := cmp.Diff(map[string]int64{"units": 19, "searches": 1}, h.Left()); diff != "" {
			t.Error(diff)
		}
		if _, err := l.Reserve(ctx, units(1)); err != nil { // it is late, and a hold is taken again as a whole
			t.Fatal(err)
		}
		clock.Advance(time.Second)
		if left(h) != 19 {
			t.Errorf("%d left", left(h))
		}
		clock.Advance(-time.Second)
		if err := l.Admin().Unblock(ctx, searches); err != nil {
			t.Fatal(err)
		}
		draw(t, ctx, l, quota.Call{Upstream: "youtube", Charges: map[string]int64{"searches": 1}})
		if diff := cmp.Diff(map[string]int64{"units": 19, "searches": 0}, h.Left()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("of another process's block it knows once it was refused", func(t *testing.T) {
		clock := quota.NewSimClock(noon)
		store := memstore.New(&memstore.Options{Clock: clock})
		var ledgers [2]*quota.Ledger
		for i := range ledgers {
			var err error
			if ledgers[i], err = quota.New(mustParse(t, testBook), store, &quota.Options{Clock: clock}); err != nil {
				t.Fatal(err)
			}
		}
		l, other := ledgers[0], ledgers[1]
		h, err := l.Hold(t.Context(), list, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.BlockFor(t.Context(), h.Verdict().Pool, time.Minute, "quotaExceeded"); err != nil {
			t.Fatal(err)
		}
		draw(t, h.Context(t.Context()), l, list)
		for _, ctx := range []context.Context{t.Context(), h.Context(t.Context())} {
			if _, err := l.Reserve(ctx, list); !errors.Is(err, quota.ErrBlocked) {
				t.Error(err)
			}
		}
		if left(h) != 3 {
			t.Errorf("%d left", left(h))
		}
	})
	t.Run("another price book can end it earlier", func(t *testing.T) {
		hourly := strings.NewReplacer("revision: 1", "revision: 2", "{per: 24h}", "{per: 24h}, {per: hour}").Replace(testBook)
		for _, test := range []struct {
			name, book string
			ends       time.Time
		}{
			{"with the same boundaries", testBook, noon.Add(time.Hour)},
			{"with other limits", strings.NewReplacer("revision: 1", "revision: 2", "quota: 10000", "quota: 20000").Replace(testBook), noon.Add(time.Hour)},
			{"with other windows", hourly, noon.Add(50 * time.Minute)},
			{"without its pool", "revision: 2\nupstreams: {github: {pools: {core: {quota: 60, windows: [{per: 1h}]}}, methods: {get: 1}}}\n", noon.Add(50 * time.Minute)},
		} {
			t.Run(test.name, func(t *testing.T) {
				l, clock := newLedger(t)
				clock.Advance(50 * time.Minute)
				h, err := l.Hold(t.Context(), list, 4)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.SetBook(mustParse(t, test.book)); err != nil {
					t.Fatal(err)
				}
				clock.Set(test.ends.Add(-time.Second))
				if test.ends.After(noon.Add(50 * time.Minute)) {
					draw(t, h.Context(t.Context()), l, list)
				} else {
					clock.Set(test.ends)
				}
				want := left(h)
				clock.Set(test.ends)
				l.Reserve(h.Context(t.Context()), list) // drawn or not is what matters
				if left(h) != want || !h.Ends().Equal(test.ends) {
					t.Errorf("%d left, want %d; ends %s, want %s", left(h), want, h.Ends(), test.ends)
				}
			})
		}
	})
	t.Run("an observer may look at it", func(t *testing.T) {
		clock := quota.NewSimClock(noon)
		var h *quota.Hold
		var kinds []quota.EventKind
		l, err := quota.New(mustParse(t, testBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{
			Clock: clock,
			Observer: quota.ObserverFunc(func(e quota.Event) {
				kinds = append(kinds, e.Kind)
				if h != nil {
					h.Left()
				}
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if h, err = l.Hold(t.Context(), list, 4); err != nil {
			t.Fatal(err)
		}
		r := draw(t, h.Context(t.Context()), l, list)
		if _, err := r.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]quota.EventKind{"granted", "drawn", "settled", "settled"}, kinds); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("bad input", func(t *testing.T) {
		l, _ := newLedger(t)
		for _, n := range []int{0, -1} {
			if _, err := l.Hold(t.Context(), list, n); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("%d calls: %v", n, err)
			}
		}
		if _, err := l.Hold(t.Context(), list, 61); !errors.Is(err, quota.ErrImpossible) {
			t.Error("more than is ever admitted:", err)
		}
		if _, err := l.Hold(t.Context(), quota.Call{Family: "client", Key: "k"}, 1); !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
	})
}

func draw(t *testing.T, ctx context.Context, l *quota.Ledger, c quota.Call) *quota.Reservation {
	t.Helper()
	r, err := l.Reserve(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
