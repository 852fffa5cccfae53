package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/redisstore"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// masters are a cluster of three, started by the first test that needs it, for all.
var masters *lazyCluster

type lazyCluster struct {
	dir string
	mu  sync.Mutex
	*redistest.Cluster
}

func startedCluster(t testing.TB) *redistest.Cluster {
	t.Helper()
	masters.mu.Lock()
	defer masters.mu.Unlock()
	if masters.Cluster == nil {
		c, err := redistest.StartCluster(masters.dir, 3)
		if err != nil {
			t.Fatal(err)
		}
		masters.Cluster = c
	}
	return masters.Cluster
}

func (c *lazyCluster) kill() {
	if c.Cluster != nil {
		c.Kill()
	}
}

func dialCluster(t testing.TB, o redis.ClusterOptions) *redis.ClusterClient {
	t.Helper()
	o.Addrs, o.PoolTimeout = startedCluster(t).Addrs(), patience
	c := redis.NewClusterClient(&o)
	t.Cleanup(func() { c.Close() })
	return c
}

// through makes connections go through proxies.
func through(proxies map[string]*redistest.Proxy) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p := proxies[addr]; p != nil {
			addr = p.Addr
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

func TestStoreOnCluster(t *testing.T) {
	h := harness(t, dialCluster(t, redis.ClusterOptions{}))
	h.Operations = scaled(600, 20_000) // TestStore makes more with the same scripts
	storetest.Run(t, h)
}

func TestClusterSpread(t *testing.T) {
	c := dialCluster(t, redis.ClusterOptions{})
	p := prefix()
	s := open(t, c, p)
	holders := func(pattern string) (n int) {
		var mu sync.Mutex
		err := c.ForEachMaster(bg, func(ctx context.Context, c *redis.Client) error {
			keys, err := c.Keys(ctx, p+pattern).Result()
			mu.Lock()
			defer mu.Unlock()
			if len(keys) > 0 {
				n++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("an_account_lies_in_one_slot", func(t *testing.T) {
		for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
			key := pool("tokens", 1, 100)
			key.Pool.Key, key.MaxKeys = name, 3
			r := quota.Request{ID: name, Charges: []quota.Charge{units(1, 100), pool(name, 1, 100), key}}
			if v, err := s.Reserve(bg, r); err != nil || !v.Allowed {
				t.Fatalf("reservation %d: %+v, %v", i, v, err)
			}
		}
		if n := holders("{api/default}*"); n != 1 {
			t.Errorf("%d masters have keys of the account, want 1", n)
		}
	})
	t.Run("the_members_of_a_family_lie_in_many", func(t *testing.T) {
		for i := range 60 {
			c := units(1, 100)
			c.Pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: fmt.Sprint("10.0.0.", i)}
			c.MaxKeys = 64_000
			if v, err := s.Reserve(bg, quota.Request{Charges: []quota.Charge{c}}); err != nil || !v.Allowed {
				t.Fatalf("member %d: %+v, %v", i, v, err)
			}
		}
		if n := holders("{client/*"); n != 3 {
			t.Errorf("%d masters have members of the family, want 3", n)
		}
	})
}

func TestReplicaReadsAreRefused(t *testing.T) {
	for name, o := range map[string]redis.ClusterOptions{
		"ReadOnly":       {ReadOnly: true},
		"RouteByLatency": {RouteByLatency: true},
		"RouteRandomly":  {RouteRandomly: true},
	} {
		o.Addrs = []string{server.Addr}
		c := redis.NewClusterClient(&o)
		defer c.Close()
		if _, err := redisstore.New(c, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}

func TestPrefixesThatAreRefused(t *testing.T) {
	for p, why := range map[string]string{
		"a{b": "braces", "a}b": "braces", "{a}": "braces",
		"a\x1d": "control characters", "a\x1eb": "control characters", "\x00": "control characters", // a receipt has them between its parts
	} {
		if _, err := redisstore.New(dial(t, server.Addr), &redisstore.Options{Prefix: p}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("prefix %q must not hold %s", p, why)) {
			t.Errorf("prefix %q: got %v", p, err)
		}
	}
}

func TestPrefixesThatAreOdd(t *testing.T) {
	for i, p := range []string{" ", "%s:", "*", "[a-z]?", "a/b:", "\"quoted\" \\", "日本", "\xff\xfe"} {
		s := open(t, dial(t, server.Addr), prefix()+p)
		v, err := s.Reserve(bg, quota.Request{ID: fmt.Sprint("odd ", i), Charges: []quota.Charge{units(3, 10)}})
		if err != nil || !v.Allowed {
			t.Fatalf("prefix %q: %+v, %v", p, v, err)
		}
		if done, err := s.Settle(bg, v.Token(), quota.Units{"units": 1}); err != nil || done.Back != 2 {
			t.Errorf("prefix %q: %+v, %v", p, done, err)
		}
	}
}
