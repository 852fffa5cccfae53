package leasestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/pgtest"
	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// leaser leases every pool to the store behind it, however few units it has. Of each
// behind, several may share the data.
type leaser struct {
	*leasestore.Store
	behind quota.Store
	again  func(testing.TB) quota.Store // opens the data of behind once more
}

func (l *leaser) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Charges = slices.Clone(r.Charges)
	for i := range r.Charges {
		r.Charges[i].Lease = quota.Lease{Life: time.Hour, Most: 1 << 40}
	}
	return l.Store.Reserve(ctx, r)
}

// opener opens data that is fresh and empty. What it returns opens it, as often as it is
// called.
type opener func(testing.TB) func(testing.TB) quota.Store

// TestStore runs the suite over each store, with blocks of at least three calls. A ring
// without late calls has blocks for as long as its bucket lasts.
func TestStore(t *testing.T) {
	clock, soak := storetest.NewClock(), os.Getenv("HEADROOM_SOAK") == "1"
	for name, prepare := range map[string]func(*testing.T) opener{
		"memory": func(*testing.T) opener {
			return func(testing.TB) func(testing.TB) quota.Store {
				one := memstore.New(&memstore.Options{Clock: clock})
				return func(testing.TB) quota.Store { return one }
			}
		},
		"sqlite": func(*testing.T) opener {
			return func(t testing.TB) func(testing.TB) quota.Store {
				// not t.TempDir: a timeline of the model is over before its test is
				dir, err := os.MkdirTemp("", "leased")
				must(t, err)
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				return func(t testing.TB) quota.Store {
					s, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "ledger.db"), &sqlitestore.Options{Clock: clock, Families: true})
					must(t, err)
					t.Cleanup(func() { must(t, s.Close()) })
					return s
				}
			}
		},
		"redis": func(t *testing.T) opener {
			redisclock.Set(clock.Now)
			t.Cleanup(func() { redisclock.Set(nil) })
			server, err := redistest.Start(t.TempDir())
			must(t, err)
			t.Cleanup(server.Kill)
			var made atomic.Int64
			return func(testing.TB) func(testing.TB) quota.Store {
				prefix := fmt.Sprintf("test%d:", made.Add(1))
				return func(t testing.TB) quota.Store {
					s, err := redisstore.Open("redis://"+server.Addr, &redisstore.Options{Prefix: prefix})
					must(t, err)
					t.Cleanup(func() { must(t, s.Close()) })
					return s
				}
			}
		},
		"postgres": func(t *testing.T) opener {
			url := pgtest.Shared(t)
			var made atomic.Int64
			return func(testing.TB) func(testing.TB) quota.Store {
				schema := fmt.Sprintf("ledger%d", made.Add(1))
				return func(t testing.TB) quota.Store {
					s, err := pgstore.Open(url, &pgstore.Options{Schema: schema, Clock: clock, Timeout: 20 * time.Second})
					must(t, err)
					t.Cleanup(func() { must(t, s.Close()) })
					return s
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" && !soak {
				t.Skip("each of its ledgers has a schema to make, which takes a minute in all; make soak runs it")
			}
			data := prepare(t)
			lease := func(t testing.TB, again func(testing.TB) quota.Store) quota.Store {
				l := &leaser{behind: again(t), again: again}
				l.Store = leasestore.Eager(l.behind, &leasestore.Options{Clock: clock}, 3)
				t.Cleanup(func() { _ = l.Store.Close() })
				return l
			}
			h := storetest.Harness{
				Open: func(t testing.TB) quota.Store { return lease(t, data(t)) },
				SetClock: func(t testing.TB, s quota.Store, now time.Time) {
					s.(*leaser).Expire(now)
					clock.Move(t, s, now)
				},
				Share: func(t testing.TB, s quota.Store) quota.Store { return lease(t, s.(*leaser).again) },
				Reopen: func(t testing.TB, s quota.Store) quota.Store {
					must(t, s.(*leaser).Store.Close())
					return lease(t, s.(*leaser).again)
				},
				Families: true,
				Blocks:   true,
			}
			if name != "memory" && !soak {
				h.Operations = 600
			}
			storetest.Run(t, h)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
