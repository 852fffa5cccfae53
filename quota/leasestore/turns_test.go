package leasestore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// leasedBook is a pool whose units are taken in blocks.
func leasedBook(t *testing.T, revision int, pool string) *quota.Book {
	t.Helper()
	b, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
revision: %d
upstreams:
  api:
    pools: {units: %s}
    methods: {light: {pool: units, cost: 10}, double: {pool: units, cost: 20}, heavy: {pool: units, cost: 1200}, huge: {pool: units, cost: 55500}}
`, revision, pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// leasing is a process with blocks of its own. Its calls take 20 ms each.
type leasing struct {
	method   string
	callers  int
	patience time.Duration // of a caller that gives up then, and comes again; 0 is forever
	units    float64
}

// Processes that take the units of a pool in blocks take turns while calls wait, as with any other pool.
func TestLeasedPoolsTakeTurns(t *testing.T) {
	const limit, length = 60_000, 3 * time.Minute
	for name, test := range map[string]struct {
		lease     string
		used      float64 // of the limit, at least; units of a block of 10 s count for 70 s
		revisions bool
		processes []leasing
	}{
		"a poor one":     {"{}", 0.95, false, []leasing{{"light", 1, 0, 0}, {"light", 8, 0, 0}, {"light", 8, 0, 0}, {"light", 8, 0, 0}}},
		"prices":         {"{}", 0.95, false, []leasing{{"heavy", 1, 0, 0}, {"light", 4, 0, 0}, {"light", 8, 0, 0}, {"double", 8, 0, 0}}},
		"a long life":    {"{life: 10s, most: 50%}", 0.81, false, []leasing{{"light", 1, 0, 0}, {"light", 8, 0, 0}, {"double", 8, 0, 0}}},
		"some give up":   {"{}", 0.95, false, []leasing{{"light", 1, 0, 0}, {"light", 8, 0, 0}, {"light", 8, time.Second, 0}}},
		"a new revision": {"{}", 0.95, true, []leasing{{"light", 1, 0, 0}, {"light", 8, 0, 0}, {"light", 8, 0, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := fmt.Sprintf("{quota: %d, windows: [{per: 1m, precision: 1s}], lease: %s}", limit, test.lease)
				whole := memstore.New(nil)
				began := time.Now()
				end := began.Add(length)
				type grant struct {
					at    time.Time
					units int64
				}
				var grants []grant
				var mu sync.Mutex
				var callers sync.WaitGroup
				var stores []*leasestore.Store
				for i := range test.processes {
					p := &test.processes[i]
					store := leasestore.New(whole, nil)
					l, err := quota.New(leasedBook(t, 1, pool), store, nil)
					if err != nil {
						t.Fatal(err)
					}
					stores = append(stores, store)
					if test.revisions {
						callers.Go(func() {
							time.Sleep(length/2 + time.Duration(i)*time.Second)
							if err := l.SetBook(leasedBook(t, 2, pool)); err != nil {
								t.Error(err)
							}
						})
					}
					for range p.callers {
						callers.Go(func() {
							for time.Now().Before(end) {
								longest := time.Until(end)
								if p.patience > 0 {
									longest = min(longest, p.patience)
								}
								r, err := l.Wait(t.Context(), quota.Call{Method: p.method}, longest)
								switch {
								case errors.Is(err, quota.ErrRefused), errors.Is(err, quota.ErrStaleBook):
									time.Sleep(10 * time.Millisecond)
									continue
								case err != nil:
									t.Error(err)
									return
								}
								mu.Lock()
								grants = append(grants, grant{time.Now(), r.Charges()["units"]})
								if time.Since(began) > time.Minute { // what was taken before anybody waited stays taken
									p.units += float64(r.Charges()["units"])
								}
								mu.Unlock()
								time.Sleep(20 * time.Millisecond)
							}
						})
					}
				}
				callers.Wait()
				for _, s := range stores {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
				sum, squares, least := 0.0, 0.0, math.Inf(1)
				for _, p := range test.processes {
					sum, squares, least = sum+p.units, squares+p.units*p.units, min(least, p.units)
				}
				n := float64(len(test.processes))
				index, poorest, used := sum*sum/n/squares, least*n/sum, sum/limit/(length-time.Minute).Minutes()
				t.Logf("index %.3f, the poorest has %.2f of its share, %.2f of the limit is used", index, poorest, used)
				if index < 0.99 || poorest < 0.9 {
					t.Errorf("%+v: an index of %.3f; the poorest has %.2f of its share", test.processes, index, poorest)
				}
				if used < test.used {
					t.Errorf("%.2f of the limit is used, want %.2f", used, test.used)
				}
				total, most, window, first := int64(0), int64(0), int64(0), 0
				for _, g := range grants {
					for total, window = total+g.units, window+g.units; g.at.Sub(grants[first].at) >= time.Minute; first++ {
						window -= grants[first].units
					}
					most = max(most, window)
				}
				if most > limit {
					t.Errorf("%d of %d units were granted within a minute", most, limit)
				}
				l, err := quota.New(leasedBook(t, 3, pool), whole, nil)
				if err != nil {
					t.Fatal(err)
				}
				spent, err := l.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByJob)
				if err != nil || len(spent) != 1 || spent[0].Units-total > limit/50 || spent[0].Units < total {
					t.Errorf("%+v %v is spent, and %d units were granted", spent, err, total)
				}
			})
		})
	}
}

// A process whose block would live for long gives back what it does not need at once while a call of another one waits.
func TestALargeBlockGoesBackWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := leasedBook(t, 1, "{quota: 60000, windows: [{per: 1h}], lease: {life: 1m, most: 50%}}")
		whole := memstore.New(nil)
		ledger := func() *quota.Ledger {
			store := leasestore.New(whole, nil)
			l, err := quota.New(b, store, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return l
		}
		one, other := ledger(), ledger()
		ctx, stop := context.WithCancel(t.Context())
		var light sync.WaitGroup
		light.Go(func() {
			for ctx.Err() == nil {
				if _, err := one.Wait(ctx, quota.Call{Method: "light"}, time.Hour); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		time.Sleep(3500 * time.Millisecond) // it has spent less than 2,000 units, and its blocks have more than 4,500
		began := time.Now()
		if _, err := other.Wait(ctx, quota.Call{Method: "huge"}, 2*time.Hour); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		stop()
		light.Wait()
	})
}
