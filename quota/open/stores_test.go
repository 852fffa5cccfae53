package open_test

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// The random tests of this package run over all stores: what a ledger promises holds wherever
// it is. Package quota has the tests that need no PostgreSQL.

var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// stores are the names of what storeOf opens.
var stores = []string{"memory", "sqlite", "redis", "postgres"}

// storeOf returns a function that opens a store on the same data at each call, as another
// process would.
func storeOf(t *testing.T, name string, clock quota.Clock) func() quota.Store {
	t.Helper()
	kept := func(s interface {
		quota.Store
		Close() error
	}, err error,
	) quota.Store {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	switch name {
	case "memory":
		s := memstore.New(&memstore.Options{Clock: clock})
		return func() quota.Store { return s }
	case "sqlite":
		path := filepath.Join(t.TempDir(), "ledger.db")
		return func() quota.Store {
			return kept(sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Clock: clock, Families: true}))
		}
	case "redis":
		server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Kill)
		redisclock.Set(clock.Now)
		t.Cleanup(func() { redisclock.Set(nil) })
		return func() quota.Store {
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			s, err := redisstore.New(client, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	case "postgres":
		address := pgtest.Shared(t)
		return func() quota.Store {
			return kept(pgstore.Open(address, &pgstore.Options{Clock: clock, Timeout: 20 * time.Second}))
		}
	}
	t.Fatalf("there is no store %s", name)
	return nil
}

// setFlag sets a flag for this test, unless it was given.
func setFlag(t testing.TB, name, value string) {
	flag.Visit(func(f *flag.Flag) {
		if f.Name == name {
			value = f.Value.String()
		}
	})
	before := flag.Lookup(name).Value.String()
	if err := flag.Lookup(name).Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Lookup(name).Value.Set(before) })
}
