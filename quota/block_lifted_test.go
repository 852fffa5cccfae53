package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// What a ledger remembers of a block goes when the block does, though another ledger
// lifted it.
func TestBlockLiftedByAnother(t *testing.T) {
	list := quota.Call{Upstream: "youtube", Method: "videos.list"}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	for name, learns := range map[string]func(*testing.T, *quota.Ledger){
		"by a grant":                       func(t *testing.T, l *quota.Ledger) { must(t, l, list) },
		"by a look":                        func(t *testing.T, l *quota.Ledger) { used(t, l, "units", "24h") },
		"by the first call under the hold": func(*testing.T, *quota.Ledger) {},
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
				if err := other.Unblock(t.Context(), pool); err != nil {
					t.Fatal(err)
				}
				learns(t, l)
				before := used(t, other, "units", "24h")
				ctx := h.Context(t.Context())
				for range 10 {
					draw(t, ctx, l, list)
				}
				apart := used(t, other, "units", "24h") - before
				if want := h.Left()["units"]; apart != want || want > 1 {
					t.Errorf("10 calls under a hold of 10 paid for %d by themselves, and left %d", apart, want)
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

// late is a store whose answer to one reservation comes late.
type late struct {
	quota.Store
	hold chan func() // what happens between the decision and its answer
}

func (s *late) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	select {
	case meanwhile := <-s.hold:
		meanwhile()
	default:
	}
	return v, err
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
			store := &late{Store: memstore.New(&memstore.Options{Clock: clock}), hold: make(chan func(), 1)}
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
				store.hold <- block
			}
			must(t, l, call)
			if _, err := l.Reserve(h.Context(t.Context()), list); !errors.Is(err, quota.ErrBlocked) || h.Left()["units"] != 10 {
				t.Errorf("a call drew from the hold of a pool that is blocked: %v, %d left", err, h.Left()["units"])
			}
		})
	}
}
