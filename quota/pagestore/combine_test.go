package pagestore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// heldClock is read once in each transaction, which it holds up while it is held.
type heldClock struct {
	quota.SystemClock
	held  chan struct{} // of the first transaction; nil: none
	mu    sync.Mutex
	reads int
}

func (c *heldClock) Now() time.Time {
	c.mu.Lock()
	c.reads++
	first := c.reads == 1
	c.mu.Unlock()
	if first {
		<-c.held
	}
	return c.SystemClock.Now()
}

// read waits until the clock was read once.
func (c *heldClock) read() {
	for reads := 0; reads == 0; runtime.Gosched() {
		c.mu.Lock()
		reads = c.reads
		c.mu.Unlock()
	}
}

func request(id string, units int64) quota.Request {
	spec, err := window.Spec{Per: time.Hour}.Normal()
	if err != nil {
		panic(err)
	}
	return quota.Request{ID: id, Charges: []quota.Charge{{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
		Units: units, Windows: []window.Limit{window.NewLimit(spec, 10)}, Revision: 1,
	}}}
}

// Callers that come before a transaction has its locks share it, and each gets its own
// answer.
func TestCallersShareATransaction(t *testing.T) {
	clock := &heldClock{held: make(chan struct{})}
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: clock, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var callers sync.WaitGroup
	got := make([]string, 7)
	call := func(i int, ctx context.Context, r quota.Request) {
		callers.Go(func() {
			v, err := s.Reserve(ctx, r)
			switch {
			case errors.Is(err, quota.ErrBadInput):
				got[i] = "bad input"
			case err != nil:
				got[i] = err.Error()
			default:
				got[i] = fmt.Sprintf("%t %d/%d", v.Allowed, v.Used, v.Limit)
			}
		})
		for i > 0 && s.Waiting() < i {
			runtime.Gosched() // they are decided in the order in which they came
		}
	}
	gone, leave := context.WithCancel(t.Context())
	call(0, t.Context(), request("a", 3))
	clock.read()
	call(1, t.Context(), request("b", 3))
	call(2, t.Context(), request("a", 4)) // the id of another call
	call(3, t.Context(), request("c", 5)) // more than is left
	call(4, t.Context(), request("d", 4))
	call(5, t.Context(), request("a", 3)) // once more
	call(6, gone, request("e", 0))
	leave()
	for s.Waiting() == 6 {
		runtime.Gosched()
	}
	close(clock.held)
	callers.Wait()
	want := []string{"true 3/10", "true 6/10", "bad input", "false 6/10", "true 10/10", "true 10/10", "context canceled"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("caller %d: %s, want %s", i, got[i], want[i])
		}
	}
	if clock.reads != 1 {
		t.Errorf("%d transactions, want 1: all came before it had its locks", clock.reads)
	}
	if v, err := s.Reserve(t.Context(), request("e", 0)); err != nil || v.Repeat {
		t.Errorf("the caller that left before its turn: %+v %v, want nothing kept of it", v, err)
	}
}

// Close waits for the transaction under way. Calls behind Close in the queue fail.
func TestCloseEndsTheQueue(t *testing.T) {
	clock := &heldClock{held: make(chan struct{})}
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: clock, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	var first, later error
	callers.Go(func() { _, first = s.Reserve(context.Background(), request("a", 1)) })
	clock.read()
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for s.Waiting() < 1 {
		runtime.Gosched()
	}
	callers.Go(func() { _, later = s.Reserve(context.Background(), request("b", 1)) })
	for s.Waiting() < 2 {
		runtime.Gosched()
	}
	close(clock.held)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	callers.Wait()
	if first != nil || later == nil {
		t.Errorf("under way: %v, want it granted; behind Close: %v, want it refused", first, later)
	}
}
