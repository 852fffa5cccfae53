package quota_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// The stores of the model test: each function returns one that opens a pair of stores
// on new and empty data, as two processes would.

func inMemory(_ testing.TB, clock quota.Clock) func(*rapid.T) [2]quota.Store {
	return func(*rapid.T) [2]quota.Store {
		s := memstore.New(&memstore.Options{Clock: clock})
		return [2]quota.Store{s, s}
	}
}

func inSQLite(t testing.TB, clock quota.Clock) func(*rapid.T) [2]quota.Store {
	dir, n := t.TempDir(), 0
	return func(rt *rapid.T) (both [2]quota.Store) {
		n++
		for i := range both {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(dir, fmt.Sprint(n, ".db")), &sqlitestore.Options{Clock: clock})
			if err != nil {
				rt.Fatal(err)
			}
			rt.Cleanup(func() { s.Close() })
			both[i] = s
		}
		return both
	}
}

func inRedis(t testing.TB, clock quota.Clock) func(*rapid.T) [2]quota.Store {
	server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { client.Close() })
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	n := 0
	return func(rt *rapid.T) (both [2]quota.Store) {
		n++
		for i := range both {
			s, err := redisstore.New(client, &redisstore.Options{Prefix: fmt.Sprint("model", n, ":")})
			if err != nil {
				rt.Fatal(err)
			}
			both[i] = s
		}
		return both
	}
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
