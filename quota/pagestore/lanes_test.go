package pagestore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/pgtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
)

// onServer opens a store whose transactions run apart from their callers.
func onServer(t *testing.T, clock quota.Clock) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(pgtest.Shared(t), &pgstore.Options{Clock: clock, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Callers that come while a transaction is under way share the next one, and each gets its
// own answer.
func TestCallersShareTheNextTransaction(t *testing.T) {
	clock := &heldClock{held: make(chan struct{})}
	s := onServer(t, clock)
	var callers sync.WaitGroup
	got := make([]string, 8)
	call := func(i int, ctx context.Context, r quota.Request) {
		callers.Go(func() {
			v, err := s.Reserve(ctx, r)
			switch {
			case errors.Is(err, quota.ErrBadInput):
				got[i] = "bad input"
			case errors.Is(err, context.Canceled):
				got[i] = "it left"
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
	early, leaveEarly := context.WithCancel(t.Context())
	gone, leave := context.WithCancel(t.Context())
	call(0, early, request("a", 1))
	clock.read()
	call(1, t.Context(), request("b", 5))
	call(2, t.Context(), request("b", 4)) // the id of another call
	call(3, t.Context(), request("c", 6)) // more than is left
	call(4, t.Context(), request("d", 4))
	call(5, t.Context(), request("b", 5)) // once more
	call(6, t.Context(), request("a", 1)) // of the caller that left
	call(7, gone, request("e", 0))
	leaveEarly() // in its transaction
	leave()      // before it
	for s.Waiting() == 7 {
		runtime.Gosched()
	}
	close(clock.held)
	callers.Wait()
	want := []string{"it left", "true 6/10", "bad input", "false 6/10", "true 10/10", "true 10/10", "true 10/10", "it left"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("caller %d: %s, want %s", i, got[i], want[i])
		}
	}
	if clock.reads != 2 {
		t.Errorf("%d transactions, want 2: of the first caller, and of those that came meanwhile", clock.reads)
	}
	if v, err := s.Reserve(t.Context(), request("e", 0)); err != nil || v.Repeat {
		t.Errorf("the caller that left before its turn: %+v %v, want nothing kept of it", v, err)
	}
}

// Close fails the callers that wait, and waits for the transaction under way.
func TestCloseEndsTheLanes(t *testing.T) {
	clock := &heldClock{held: make(chan struct{})}
	s := onServer(t, clock)
	first, later, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Reserve(context.Background(), request("a", 1)); first <- err }()
	clock.read()
	go func() { _, err := s.Reserve(context.Background(), request("b", 1)); later <- err }()
	for s.Waiting() < 1 {
		runtime.Gosched()
	}
	go func() { closed <- s.Close() }()
	if err := <-later; err == nil {
		t.Error("a caller behind Close was granted")
	}
	close(clock.held)
	if err := <-first; err != nil {
		t.Errorf("under way: %v, want it granted", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := s.Reserve(t.Context(), request("c", 1)); err == nil {
		t.Error("granted by a closed store")
	}
}

// A panic in a lane reaches one caller. The others that share its transaction get an error.
func TestAPanicInALaneHangsNobody(t *testing.T) {
	s := onServer(t, &brokenClock{})
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
