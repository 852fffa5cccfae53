package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/redistest"
	"github.com/headroom-quota/headroom/quota/storetest"
)

func startSentinel(t testing.TB, replicas, sentinels int) *redistest.Sentinel {
	t.Helper()
	s, err := redistest.StartSentinel(t.TempDir(), replicas, sentinels)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func failover(t testing.TB, s *redistest.Sentinel) {
	t.Helper()
	if err := s.Failover(patient(t)); err != nil {
		t.Fatal(err)
	}
}

func dialSentinel(t testing.TB, s *redistest.Sentinel) *redis.Client {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.Addrs(), MasterName: redistest.MasterName})
	t.Cleanup(func() { c.Close() })
	return c.(*redis.Client)
}

// A failover changes nothing: a store behind Sentinel keeps every promise of the
// suite on a replica that has taken the place of a master killed before.
func TestStoreBehindSentinel(t *testing.T) {
	s := startSentinel(t, 2, 3)
	c := dialSentinel(t, s)
	if got := askedServer(t, c); got != s.Master.Addr {
		t.Fatalf("%s answers, the master is %s", got, s.Master.Addr)
	}
	failover(t, s)
	storetest.Run(t, harness(t, c))
	if got := askedServer(t, c); got != s.Master.Addr {
		t.Errorf("%s answered, the promoted replica is %s", got, s.Master.Addr)
	}
}

// askedServer is the address of whoever answers a client.
func askedServer(t testing.TB, c *redis.Client) string {
	t.Helper()
	port, err := c.ConfigGet(patient(t), "port").Result()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + port["port"]
}
