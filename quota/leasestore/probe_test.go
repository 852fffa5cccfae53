package leasestore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const probeBook = `
revision: 1
upstreams:
  api:
    pools:
      units: {quota: 1000, headroom: 0, lease: {most: 100, life: 10s}, windows: [{per: 1h}]}
    methods: {get: {pool: units, cost: 1}}
`

// A call that draws from a leased block has an id of its own, which the caller did not choose.
// It ends the probe all the same.
func TestTheFirstCallAfterABlockDrawsFromALease(t *testing.T) {
	units := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
	get := quota.Call{Method: "get"}
	one := quota.Units{"units": 1}
	for name, end := range map[string]func(context.Context, *quota.Ledger, *quota.Reservation) error{
		"answered": func(_ context.Context, _ *quota.Ledger, r *quota.Reservation) error { r.Answered(); return nil },
		"settled": func(ctx context.Context, _ *quota.Ledger, r *quota.Reservation) error {
			_, err := r.Settle(ctx, one)
			return err
		},
		"settled by its token": func(ctx context.Context, l *quota.Ledger, r *quota.Reservation) error {
			_, err := l.Settle(ctx, r.Token(), one)
			return err
		},
		"done": func(ctx context.Context, l *quota.Ledger, r *quota.Reservation) error { return l.Done(ctx, r.Token()) },
		"released, and the next one answered": func(ctx context.Context, l *quota.Ledger, r *quota.Reservation) error {
			if _, err := r.Release(ctx); err != nil {
				return err
			}
			next, err := l.Reserve(ctx, get)
			if err == nil {
				next.Answered()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := book.Parse("costs.yaml", []byte(probeBook), nil)
				if err != nil {
					t.Fatal(err)
				}
				s := leasestore.Eager(memstore.New(nil), nil, 20)
				defer s.Close()
				l, err := quota.New(b, s, nil)
				if err != nil {
					t.Fatal(err)
				}
				reserve := func() *quota.Reservation {
					t.Helper()
					r, err := l.Reserve(t.Context(), get)
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				for range 3 { // the next block of the upstream meets leases that are in use
					if err := l.BlockFor(t.Context(), units, time.Minute, "the upstream said no"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					first := reserve()
					if _, err := l.Reserve(t.Context(), get); !errors.Is(err, quota.ErrBlocked) {
						t.Errorf("beside the first call: %v, want a refusal", err)
					}
					if err := end(t.Context(), l, first); err != nil {
						t.Error(err)
					}
					for range 30 {
						reserve()
					}
				}
			})
		})
	}
}
