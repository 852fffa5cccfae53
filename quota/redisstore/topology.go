package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/quota"
)

// go-redis asks a Cluster who its masters are once a minute, and whenever a node
// redirects a command. A dead master redirects nobody. After a failed command go-redis
// would try another node, but only together with a second sending, which a ledger must
// not have (see [once]). So the store asks the Cluster itself.
const (
	reloadPause = 200 * time.Millisecond // between two reloads
	reloadHedge = 100 * time.Millisecond // until a reload that has no answer asks one more node
	reloadNodes = 10                     // how many it asks at most
)

// cluster has the methods of a [redis.ClusterClient] that topology needs. A user's own
// type may embed the client.
type cluster interface {
	// ForEachMaster asks for the cluster's state before it does anything else, and waits
	// for the answer. ReloadState does not wait.
	ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
}

// topology keeps the client's list of a Cluster's masters up to date.
type topology struct {
	client cluster
	now    atomic.Pointer[chan struct{}] // closed when the running reload ends; nil if none runs

	mu   sync.Mutex
	busy bool          // a reload runs, or the pause after it
	next chan struct{} // closed when the reload after the pause ends; nil if nobody waits for one
}

// newTopology returns a topology for a client of a Cluster, and nil for other clients.
func newTopology(client redis.UniversalClient) *topology {
	if c, ok := client.(cluster); ok {
		return &topology{client: c}
	}
	return nil
}

// follow sends a command to its master. If it cannot connect, it reloads the topology and
// sends the command to the new master. That is safe because the command was never sent.
func (t *topology) follow(ctx context.Context, send func(context.Context) error) error {
	if now := t.now.Load(); now != nil {
		select {
		case <-*now:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := send(ctx)
	if !unsent(err) {
		return err
	}
	select {
	case <-t.reload():
		return send(ctx)
	case <-ctx.Done():
		return err
	}
}

// unsent reports whether an error proves that a command has reached no node: there was
// no connection to write it to. A node that redirected the command has not run it.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// outdated lists the prefixes of replies from a node that is not the master, or from a
// cluster without a master.
var outdated = [...]string{"MOVED", "ASK", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"}

// doubtful reports whether the client may have asked the wrong node. An error of a
// cancelled context does not count.
func doubtful(err error) bool {
	if errors.As(err, new(redis.Error)) {
		return slices.ContainsFunc(outdated[:], func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

// reload asks for the cluster's state soon. Only one reload runs at a time, with a pause
// after it, however many callers want one. The channel closes when a reload that began
// after this call has ended.
func (t *topology) reload() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.next != nil:
		return t.next
	case t.busy:
		t.next = make(chan struct{})
		return t.next
	}
	t.busy = true
	done := make(chan struct{})
	t.now.Store(&done)
	go t.run(done)
	return done
}

// run reloads while callers wait for it.
func (t *topology) run(done chan struct{}) {
	for done != nil {
		t.ask()
		t.now.Store(nil)
		close(done)
		_ = quota.SystemClock{}.Sleep(context.Background(), reloadPause)
		done = t.following()
	}
}

// following begins the next reload if a caller waits for it. Otherwise it returns nil.
func (t *topology) following() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := t.next
	t.next = nil
	if done == nil {
		t.busy = false
	} else {
		t.now.Store(&done)
	}
	return done
}

// ask reloads. The client chooses a node at random, which may be the dead one. So ask
// starts further reloads while the first one has no answer.
func (t *topology) ask() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answered := make(chan struct{}, reloadNodes)
	for range reloadNodes {
		go func() {
			// Without an answer the client keeps the state that it has.
			_ = t.client.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
			answered <- struct{}{}
		}()
		select {
		case <-answered:
			return
		case <-time.After(reloadHedge):
		}
	}
}
