package pagestore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/pagestore"
)

// onServer opens a store whose transactions run apart from their callers, as those of a server do.
func onServer(t *testing.T, clock quota.Clock) *pagestore.Store {
	t.Helper()
	memory := pagestore.BackendOf(memstore.New(nil).Store)
	s := pagestore.New(&clockedBackend{memory, clock}, &pagestore.Options{Combine: time.Minute, Deadline: time.Minute})
	t.Cleanup(s.Close)
	return s
}

// clockedBackend reads its clock once in each transaction.
type clockedBackend struct {
	pagestore.Backend
	clock quota.Clock
}

func (b *clockedBackend) Begin(ctx context.Context, waited time.Duration) (pagestore.Tx, error) {
	tx, err := b.Backend.Begin(ctx, waited)
	return &clockedTx{tx, b.clock}, err
}

type clockedTx struct {
	pagestore.Tx
	clock quota.Clock
}

func (t *clockedTx) Now() time.Time { return t.clock.Now() }

// Callers that come while a transaction is under way share the next one, and each gets its
// own answer.
func TestCallersShareTheNextTransaction(t *testing.T) {
	clock := &heldClock{held: make(chan struct{})}
	s := onServer(t, clock)
	l := line{t: t, store: s, got: make([]string, 8)}
	early, leaveEarly := context.WithCancel(t.Context())
	gone, leave := context.WithCancel(t.Context())
	l.call(0, early, request("a", 1))
	clock.read()
	l.call(1, t.Context(), request("b", 5))
	l.call(2, t.Context(), request("b", 4)) // the id of another call
	l.call(3, t.Context(), request("c", 6)) // more than is left
	l.call(4, t.Context(), request("d", 4))
	l.call(5, t.Context(), request("b", 5)) // once more
	l.call(6, t.Context(), request("a", 1)) // of the caller that left
	l.call(7, gone, request("e", 0))
	leaveEarly() // in its transaction
	leave()      // before it
	// The first caller has a transaction, and those that came meanwhile.
	l.told(clock, 6, 2, "it left", "true 6/10", "bad input", "false 6/10", "true 10/10", "true 10/10", "true 10/10", "it left")
}

// A panic of a job that runs apart reaches its caller. The others that share its transaction get an error.
func TestAPanicApartHangsNobody(t *testing.T) {
	panicsOnce(t, onServer(t, &brokenClock{}))
}

// panicsOnce expects that the first call panics, and that the next one is granted.
func panicsOnce(t *testing.T, s *pagestore.Store) {
	t.Helper()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is swallowed")
			}
		}()
		_, _ = s.Reserve(t.Context(), request("a", 3))
	}()
	if v, err := s.Reserve(t.Context(), request("b", 3)); err != nil || v.Used != 3 {
		t.Errorf("the next call: %+v %v, want 3 units used", v, err)
	}
}

// brokenBegin panics when its first transaction begins.
type brokenBegin struct {
	pagestore.Backend
	once sync.Once
}

func (b *brokenBegin) Begin(ctx context.Context, waited time.Duration) (pagestore.Tx, error) {
	b.once.Do(func() { panic("the driver is broken") })
	return b.Backend.Begin(ctx, waited)
}

// A panic of a transaction that begins apart reaches its caller, too, and does not end the process.
func TestAPanicOfABeginApartHangsNobody(t *testing.T) {
	s := pagestore.New(&brokenBegin{Backend: pagestore.BackendOf(memstore.New(nil).Store)}, &pagestore.Options{Combine: time.Minute, Deadline: time.Minute})
	t.Cleanup(s.Close)
	panicsOnce(t, s)
}
