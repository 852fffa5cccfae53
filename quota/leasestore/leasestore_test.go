package leasestore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// leaser leases every pool to the store behind it, however few units it has.
type leaser struct {
	*leasestore.Store
	behind quota.Store
}

func (l *leaser) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Charges = slices.Clone(r.Charges)
	for i := range r.Charges {
		r.Charges[i].Lease = quota.Lease{Life: time.Hour, Most: 1 << 40}
	}
	return l.Store.Reserve(ctx, r)
}

// TestStore runs the suite with blocks of at least three calls. A ring without late calls
// has blocks for as long as its bucket lasts.
func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) quota.Store {
			behind := memstore.New(&memstore.Options{Clock: clock})
			s := leasestore.Eager(behind, &leasestore.Options{Clock: clock}, 3)
			t.Cleanup(func() { _ = s.Close() })
			return &leaser{s, behind}
		},
		SetClock: func(t testing.TB, s quota.Store, now time.Time) {
			s.(*leaser).Expire(now)
			clock.Move(t, s, now)
		},
		Share: func(t testing.TB, s quota.Store) quota.Store {
			other := leasestore.Eager(s.(*leaser).behind, &leasestore.Options{Clock: clock}, 3)
			t.Cleanup(func() { _ = other.Close() })
			return &leaser{other, s.(*leaser).behind}
		},
		Families: true,
	})
}
