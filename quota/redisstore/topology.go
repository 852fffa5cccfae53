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

// cluster is what a [redis.ClusterClient] can do, also inside a user's own type.
type cluster interface {
	// ForEachMaster asks for the cluster's state before it does anything else, and waits
	// for the answer. ReloadState does not wait.
	ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
}

// topology keeps up to date which node of a Cluster is the master of what.
type topology struct {
	client cluster
	now    atomic.Pointer[chan struct{}] // closed when the running reload ends; nil if none runs

	mu   sync.Mutex
	busy bool          // a reload runs, or the pause after it
	next chan struct{} // closed when the reload after the pause ends; nil if nobody waits for one
}

// newTopology returns nil for a client of anything but a Cluster.
func newTopology(client redis.UniversalClient) *topology {
	if c, ok := client.(cluster); ok {
		return &topology{client: c}
	}
	return nil
}

// follow sends a command to its master. If the master cannot be connected to, follow
// reloads and sends to the master of then: nothing has left before.
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

// outdated lists how replies begin that come from a node that is not the master, or
// not any more, or from a cluster that has none.
var outdated = [...]string{"MOVED", "ASK", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"}

// doubtful reports whether the client may have asked the wrong node. A caller that
// cancels says nothing about the node.
func doubtful(err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		return slices.ContainsFunc(outdated[:], func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

// reload asks for the cluster's state soon, however many callers want it: one reload
// runs at a time, and then there is a pause. The channel is closed when a reload has
// ended that began after this call.
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

// run reloads for as long as somebody waits for it.
func (t *topology) run(done chan struct{}) {
	for done != nil {
		t.ask()
		t.now.Store(nil)
		close(done)
		_ = quota.SystemClock{}.Sleep(context.Background(), reloadPause)
		done = t.following()
	}
}

// following begins the next reload if somebody waits for it; else it returns nil.
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

// ask reloads. The client chooses a node at random, which may be the one that is gone.
// So a reload that takes long is joined by others.
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
