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
	"github.com/headroom-quota/headroom/quota/pagestore"
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

// waiter is a store that says how many callers wait.
type waiter interface {
	quota.Store
	Waiting() int
}

// line is callers of a store, who come one after the other.
type line struct {
	t     testing.TB
	store waiter
	all   sync.WaitGroup
	got   []string // what each was told
}

// call calls for one more caller, and waits until those before it are decided first.
func (l *line) call(i int, ctx context.Context, r quota.Request) {
	l.all.Go(func() {
		v, err := l.store.Reserve(ctx, r)
		switch {
		case errors.Is(err, quota.ErrBadInput):
			l.got[i] = "bad input"
		case errors.Is(err, context.Canceled):
			l.got[i] = "it left"
		case err != nil:
			l.got[i] = err.Error()
		default:
			l.got[i] = fmt.Sprintf("%t %d/%d", v.Allowed, v.Used, v.Limit)
		}
	})
	for i > 0 && l.store.Waiting() < i {
		runtime.Gosched()
	}
}

// told lets the held transaction go on once no more than so many wait. It checks what each caller
// is told, and that nothing is kept of the call e, which left before its turn.
func (l *line) told(clock *heldClock, waiting, transactions int, want ...string) {
	l.t.Helper()
	for l.store.Waiting() > waiting {
		runtime.Gosched()
	}
	close(clock.held)
	l.all.Wait()
	for i := range want {
		if l.got[i] != want[i] {
			l.t.Errorf("caller %d: %s, want %s", i, l.got[i], want[i])
		}
	}
	if clock.reads != transactions {
		l.t.Errorf("%d transactions, want %d", clock.reads, transactions)
	}
	if v, err := l.store.Reserve(l.t.Context(), request("e", 0)); err != nil || v.Repeat {
		l.t.Errorf("the caller that left before its turn: %+v %v, want nothing kept of it", v, err)
	}
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
	l := line{t: t, store: s, got: make([]string, 7)}
	gone, leave := context.WithCancel(t.Context())
	l.call(0, t.Context(), request("a", 3))
	clock.read()
	l.call(1, t.Context(), request("b", 3))
	l.call(2, t.Context(), request("a", 4)) // the id of another call
	l.call(3, t.Context(), request("c", 5)) // more than is left
	l.call(4, t.Context(), request("d", 4))
	l.call(5, t.Context(), request("a", 3)) // once more
	l.call(6, gone, request("e", 0))
	leave()
	// All came before the transaction had its locks.
	l.told(clock, 5, 1, "true 3/10", "true 6/10", "bad input", "false 6/10", "true 10/10", "true 10/10", "it left")
}

// Close fails the callers that wait, and later ones, and waits for the transaction under way.
func TestCloseEndsTheQueues(t *testing.T) {
	for name, open := range map[string]func(quota.Clock) (waiter, func()){
		"sqlite": func(c quota.Clock) (waiter, func()) {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: c, Wait: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return s, func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		},
		"apart": func(c quota.Clock) (waiter, func()) {
			s := onServer(t, c)
			return s, s.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &heldClock{held: make(chan struct{})}
			s, end := open(clock)
			first, later, closed := make(chan error, 1), make(chan error, 1), make(chan struct{})
			go func() { _, err := s.Reserve(context.Background(), request("a", 1)); first <- err }()
			clock.read()
			go func() { _, err := s.Reserve(context.Background(), request("b", 1)); later <- err }()
			for s.Waiting() < 1 {
				runtime.Gosched()
			}
			go func() { end(); close(closed) }()
			if err := <-later; !errors.Is(err, pagestore.ErrClosed) {
				t.Errorf("a caller that waited: %v, want %v", err, pagestore.ErrClosed)
			}
			if _, err := s.Reserve(t.Context(), request("c", 1)); !errors.Is(err, pagestore.ErrClosed) {
				t.Errorf("a caller of a store that is being closed: %v, want %v", err, pagestore.ErrClosed)
			}
			select {
			case <-closed:
				t.Error("Close did not wait for the transaction under way")
			default:
			}
			close(clock.held)
			if err := <-first; err != nil {
				t.Errorf("under way: %v, want it granted", err)
			}
			<-closed
		})
	}
}
