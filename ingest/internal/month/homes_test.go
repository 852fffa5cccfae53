package month

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// home is a kind of store for a ledger. The function that open returns opens the store as
// a new program does. It finds the data of the program before.
type home struct {
	name string
	open func(t *testing.T, clock *quota.SimClock) func() quota.Store
}

var (
	inMemory = home{"in memory", openMemory}
	inSQLite = home{"in SQLite", openSQLite}
	inRedis  = home{"in Redis", openRedis}

	inPostgreSQL = home{"in PostgreSQL", openPostgreSQL}
)

// inBlocks is memory, from which each program takes blocks of units. A program that ends
// gives nothing back.
var inBlocks = home{"in memory, in blocks", func(t *testing.T, clock *quota.SimClock) func() quota.Store {
	open := openMemory(t, clock)
	return func() quota.Store { return leasestore.New(open(), &leasestore.Options{Clock: clock}) }
}}

// openMemory survives no program: there it is only the ledger that begins anew.
func openMemory(_ *testing.T, clock *quota.SimClock) func() quota.Store {
	store := memstore.New(&memstore.Options{Clock: clock})
	return func() quota.Store { return store }
}

// reopening returns what ends the program before, whose store is closed, and begins the next.
func reopening[S interface {
	quota.Store
	Close() error
}](t *testing.T, open func() (S, error)) func() quota.Store {
	shut := func() error { return nil }
	t.Cleanup(func() { _ = shut() })
	return func() quota.Store {
		_ = shut()
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		shut = s.Close
		return s
	}
}

func openSQLite(t *testing.T, clock *quota.SimClock) func() quota.Store {
	path := filepath.Join(t.TempDir(), "ledger.db")
	return reopening(t, func() (*sqlitestore.Store, error) {
		return sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Clock: clock, Wait: patience})
	})
}

func openRedis(t *testing.T, clock *quota.SimClock) func() quota.Store {
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	return reopening(t, func() (*redisstore.Store, error) {
		return redisstore.Open("redis://"+server.Addr, &redisstore.Options{Timeout: patience})
	})
}

func openPostgreSQL(t *testing.T, clock *quota.SimClock) func() quota.Store {
	url := pgtest.Shared(t)
	return reopening(t, func() (*pgstore.Store, error) {
		return pgstore.Open(url, &pgstore.Options{Clock: clock, Timeout: patience})
	})
}

// patience bounds what would otherwise hang. Nothing here depends on how long
// things take.
const patience = time.Minute
