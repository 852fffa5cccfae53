package redisstore_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A client that knows only a master that is gone finds the new one within the same
// call. Nothing was sent before, so nothing is charged twice.
func TestCallFollowsTheMaster(t *testing.T) {
	gone := closedPort(t)
	var asked, dialled atomic.Int64
	client := redis.NewClusterClient(&redis.ClusterOptions{
		DialerRetries:          1,
		DisableRoutingPolicies: true, // for them it asks any node for more
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			master := gone
			if asked.Add(1) > 1 {
				master = server.Addr
			}
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: master}}}}, nil
		},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasSuffix(gone, addr) { // it comes without a host
				dialled.Add(1)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, prefix())
	if _, err := reserve(s, "", 1); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	if n := used(t, s); n != 1 {
		t.Errorf("%d units used, want 1", n)
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("the master that is gone was dialled %d times, want once", n)
	}
}

// closedPort is an address where nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return l.Addr().String()
}

// However many callers fail, a Cluster without a master is asked now and then who it is.
func TestReloadsAreFew(t *testing.T) {
	gone := closedPort(t)
	var reloads atomic.Int64
	client := redis.NewClusterClient(&redis.ClusterOptions{
		DialerRetries: 1,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			reloads.Add(1)
			return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: gone}}}}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, prefix())
	// The first callers of a client each ask for the state, if none of them has an answer yet.
	_, err := reserve(s, "", 1)
	mustBeOutage(t, err)
	reloads.Store(0)
	const callers, calls = 64, 5
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				_, err := reserve(s, "", 1)
				mustBeOutage(t, err)
				if err == nil {
					t.Error("granted by nobody")
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls failed, %d reloads", callers*calls, reloads.Load())
	if n := reloads.Load(); n < 1 || n > callers*calls/8 {
		t.Errorf("%d calls failed, and %d times the cluster was asked for its state", callers*calls, n)
	}
}
