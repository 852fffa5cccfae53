package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redisclock"
	"github.com/headroom-quota/headroom/internal/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// server is shared by the tests that do not hurt it.
var server *redistest.Server

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "redisstore")
	if err == nil {
		server, err = redistest.Start(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	server.Kill()
	os.RemoveAll(dir)
	os.Exit(code)
}

// prefixes keep the tests on one server apart.
var prefixes atomic.Int64

func prefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

func dial(t testing.TB, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t testing.TB, c redis.UniversalClient, prefix string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(c, &redisstore.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// harness runs the suite in what client is connected to, on a moved clock.
func harness(t *testing.T, client redis.UniversalClient) storetest.Harness {
	clock := storetest.NewClock()
	redisclock.Set(clock.Now)
	t.Cleanup(func() { redisclock.Set(nil) })
	prefixOf := make(map[quota.Store]string)
	again := func(t testing.TB, s quota.Store) quota.Store {
		other := open(t, client, prefixOf[s])
		prefixOf[other] = prefixOf[s]
		return other
	}
	return storetest.Harness{
		Open: func(t testing.TB) quota.Store {
			p := prefix()
			s := open(t, client, p)
			prefixOf[s] = p
			return s
		},
		SetClock: clock.Move,
		Share:    again,
		Reopen:   again,
		Size:     func(t testing.TB, s quota.Store) int64 { return size(t, client, prefixOf[s]) },
		Families: true,
	}
}

// size is what the pages of a store take; receipts and spend have bounds of their
// own.
func size(t testing.TB, client redis.UniversalClient, prefix string) int64 {
	ctx := context.Background()
	keys, err := client.Keys(ctx, prefix+"*:page:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, key := range keys {
		bytes, err := client.MemoryUsage(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		n += bytes
	}
	return n
}

func TestStore(t *testing.T) {
	storetest.Run(t, harness(t, dial(t, server.Addr)))
}

var _ = time.Second
