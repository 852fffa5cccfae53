package leasestore_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// leaser leases every pool to the store behind it, however few units it has.
type leaser struct {
	*leasestore.Store
	behind quota.Store
	ledger *leased
}

// leased is the data of one ledger, with the processes that have opened it.
type leased struct {
	open    opener
	leasers []*leaser
}

func (l *leaser) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	r.Charges = slices.Clone(r.Charges)
	for i := range r.Charges {
		r.Charges[i].Lease = quota.Lease{Life: time.Hour, Most: 1 << 40}
	}
	return l.Store.Reserve(ctx, r)
}

// patience is the timeout of stores on a machine that may be busy.
const patience = time.Minute

// opener opens the data of one ledger, as often as it is called.
type opener func(testing.TB) quota.Store

// suite runs the suite over a store, with blocks of at least three calls. A ring without late
// calls has blocks for as long as its bucket lasts. Each call of fresh makes an empty ledger.
func suite(t *testing.T, clock storetest.Clock, operations int, fresh func(testing.TB) opener) {
	lease := func(t testing.TB, ledger *leased) quota.Store {
		l := &leaser{behind: ledger.open(t), ledger: ledger}
		// What is not given back in time is tried again later, and this clock stands still: a busy machine is no outage.
		l.Store = leasestore.Eager(l.behind, &leasestore.Options{Clock: clock, Timeout: patience}, 3)
		t.Cleanup(func() { _ = l.Store.Close() })
		ledger.leasers = append(ledger.leasers, l)
		return l
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) quota.Store { return lease(t, &leased{open: fresh(t)}) },
		SetClock: func(t testing.TB, s quota.Store, now time.Time) {
			for _, l := range s.(*leaser).ledger.leasers {
				l.Expire(now)
			}
			clock.Move(t, s, now)
		},
		Share: func(t testing.TB, s quota.Store) quota.Store { return lease(t, s.(*leaser).ledger) },
		Reopen: func(t testing.TB, s quota.Store) quota.Store {
			must(t, s.(*leaser).Store.Close())
			return lease(t, s.(*leaser).ledger)
		},
		Families:   true,
		GiveBack:   func(_ testing.TB, s quota.Store) { s.(*leaser).GiveBack() },
		Operations: operations,
	})
}

// few is how often the suite acts at random on a store that is not in memory.
func few() int {
	if soak() {
		return 20_000
	}
	return 600
}

func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	suite(t, clock, 0, func(testing.TB) opener {
		one := memstore.New(&memstore.Options{Clock: clock})
		return func(testing.TB) quota.Store { return one }
	})
}

func TestStoreOverSQLite(t *testing.T) {
	clock := storetest.NewClock()
	suite(t, clock, few(), func(t testing.TB) opener {
		dir, err := os.MkdirTemp("", "leased") // not t.TempDir: a timeline of the model is over before its test is
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return func(t testing.TB) quota.Store {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "ledger.db"), &sqlitestore.Options{Clock: clock, Families: true})
			return opened(t, s, err)
		}
	})
}

func TestStoreOverRedis(t *testing.T) {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	server, err := redistest.Start(t.TempDir())
	must(t, err)
	t.Cleanup(server.Kill)
	var made atomic.Int64
	suite(t, clock, few(), func(testing.TB) opener {
		prefix := fmt.Sprintf("test%d:", made.Add(1))
		return func(t testing.TB) quota.Store {
			address := "redis://" + server.Addr + "?pool_timeout=" + patience.String() // else 4s
			s, err := redisstore.Open(address, &redisstore.Options{Prefix: prefix, Timeout: patience})
			return opened(t, s, err)
		}
	})
}

type closing interface {
	quota.Store
	io.Closer
}

// opened closes a store at the end of its test.
func opened(t testing.TB, s closing, err error) quota.Store {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
