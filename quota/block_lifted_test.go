package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// A ledger forgets a block that another ledger has lifted.
func TestBlockLiftedByAnother(t *testing.T) {
	list := quota.Call{Upstream: "youtube", Method: "videos.list"}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	for name, test := range map[string]struct {
		learns func(*testing.T, *quota.Ledger)
		apart  int64 // so many calls pay for themselves
	}{
		"by a grant":                       {func(t *testing.T, l *quota.Ledger) { must(t, l, list) }, 0},
		"by a look":                        {func(t *testing.T, l *quota.Ledger) { used(t, l, "units", "24h") }, 0},
		"by the first call under the hold": {func(*testing.T, *quota.Ledger) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			atHomes(t, testBook, func(t *testing.T, open func() *quota.Ledger, _ *quota.SimClock) {
				l, other := open(), open()
				h, err := l.Hold(t.Context(), list, 10)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.BlockFor(t.Context(), pool, time.Hour, "quotaExceeded"); err != nil {
					t.Fatal(err)
				}
				if err := other.Admin().Unblock(t.Context(), pool); err != nil {
					t.Fatal(err)
				}
				test.learns(t, l)
				before := used(t, other, "units", "24h")
				ctx := h.Context(t.Context())
				for range 10 {
					draw(t, ctx, l, list)
				}
				apart := used(t, other, "units", "24h") - before
				if apart != test.apart || h.Left()["units"] != test.apart {
					t.Errorf("10 calls under a hold of 10 paid for %d by themselves, and left %d; want %d", apart, h.Left()["units"], test.apart)
				}
				if err := h.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := used(t, other, "units", "24h") - before; n != 0 {
					t.Errorf("%d charged on top of the 10", n)
				}
			})
		})
	}
}

// A grant that was decided before a block says nothing of the block.
func TestGrantBeforeABlockDoesNotLiftIt(t *testing.T) {
	list := quota.Call{Upstream: "youtube", Method: "videos.list"}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	for name, call := range map[string]quota.Call{
		"of a block that was made meanwhile": list,
		"and neither does the repeat of one": {Upstream: "youtube", Method: "videos.list", ID: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			store := &broken{Store: memstore.New(&memstore.Options{Clock: clock})}
			l, err := quota.New(mustParse(t, testBook), store, &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			h, err := l.Hold(t.Context(), list, 10)
			if err != nil {
				t.Fatal(err)
			}
			block := func() {
				if err := l.BlockFor(t.Context(), pool, time.Hour, "quotaExceeded"); err != nil {
					t.Error(err)
				}
			}
			if call.ID != "" { // its answer stands, block or not
				must(t, l, call)
				block()
			} else {
				store.meanwhile = block
			}
			must(t, l, call)
			if _, err := l.Reserve(h.Context(t.Context()), list); !errors.Is(err, quota.ErrBlocked) || h.Left()["units"] != 10 {
				t.Errorf("a call drew from the hold of a pool that is blocked: %v, %d left", err, h.Left()["units"])
			}
		})
	}
}
