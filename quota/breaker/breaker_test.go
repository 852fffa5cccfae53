package breaker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
)

// store does what it is told to, and counts how often it was asked.
type store struct {
	quota.Store
	mu    sync.Mutex
	asked int
	do    func(ctx context.Context) error
}

func (s *store) answer(ctx context.Context) error {
	s.mu.Lock()
	s.asked++
	do := s.do
	s.mu.Unlock()
	return do(ctx)
}

func (s *store) Reserve(ctx context.Context, _ quota.Request) (quota.Verdict, error) {
	err := s.answer(ctx)
	return quota.Verdict{Allowed: err == nil}, err
}

func (s *store) Look(ctx context.Context, _ []quota.Charge) ([]quota.PageState, error) {
	return nil, s.answer(ctx)
}

func (s *store) now(do func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

func (s *store) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

var (
	request  = quota.Request{Charges: make([]quota.Charge, 1)}
	errSlow  = errors.New("timed out")
	dead     = func(context.Context) error { return errSlow }
	alive    = func(context.Context) error { return nil }
	hour     = &breaker.Options{Probe: time.Hour}
	forgot   = func(context.Context) error { return &quota.ForgottenError{} }
	badInput = func(context.Context) error { return quota.BadInput("no") }
)

func TestThreeFailuresInARow(t *testing.T) {
	for _, test := range []struct {
		name  string
		calls []func(context.Context) error
		asked int // of one call more
	}{
		{"and it is dead", []func(context.Context) error{dead, dead, dead}, 3},
		{"not two", []func(context.Context) error{dead, dead}, 3},
		{"not with an answer between them", []func(context.Context) error{dead, dead, alive, dead, dead}, 6},
		{"bad input is an answer", []func(context.Context) error{dead, dead, badInput, dead, dead}, 6},
		{"to have forgotten is an answer", []func(context.Context) error{forgot, forgot, forgot}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			behind := &store{}
			s := breaker.New(behind, hour)
			for _, do := range test.calls {
				behind.now(do)
				if _, err := s.Reserve(t.Context(), request); errors.Is(err, breaker.ErrOpen) {
					t.Fatal(err)
				}
			}
			_, err := s.Reserve(t.Context(), request)
			if behind.times() != test.asked {
				t.Errorf("asked %d times, want %d", behind.times(), test.asked)
			}
			if open := test.asked == len(test.calls); errors.Is(err, breaker.ErrOpen) != open || errors.Is(err, quota.ErrNotAsked) != open {
				t.Error(err)
			} else if open && !strings.Contains(err.Error(), errSlow.Error()) {
				t.Errorf("%v does not say why: %v", err, errSlow)
			}
		})
	}
}

// When the breaker finds the store down, calls in flight fail. This store would never
// answer them.
func TestWhatIsUnderWayIsGivenUp(t *testing.T) {
	behind := &store{do: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	s := breaker.New(behind, hour)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			_, err := s.Reserve(context.Background(), request)
			if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, quota.ErrNotAsked) {
				t.Error("it may have been taken, and nobody cancelled:", err)
			} else if !strings.Contains(err.Error(), errSlow.Error()) {
				t.Errorf("%v does not say why: %v", err, errSlow)
			}
		})
	}
	for behind.times() < 10 {
		time.Sleep(time.Millisecond)
	}
	behind.now(dead)
	for range 3 {
		if _, err := s.Reserve(t.Context(), request); !errors.Is(err, errSlow) {
			t.Error(err)
		}
	}
	group.Wait()
}

// A caller that cancels or runs out of time says nothing about the store.
func TestCallersThatGiveUp(t *testing.T) {
	answer := make(chan struct{})
	behind := &store{do: func(context.Context) error { <-answer; return nil }}
	s := breaker.New(behind, hour)
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for behind.times() == i {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := s.Reserve(ctx, request); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	runOut(t, s, behind, 6)
	close(answer)
	if _, err := s.Reserve(t.Context(), request); err != nil {
		t.Error("a patient caller:", err)
	}
}

// runOut has callers run out of time until the store was asked so often. A caller may also do so
// before it is asked.
func runOut(t *testing.T, s *breaker.Store, behind *store, times int) {
	t.Helper()
	for behind.times() < times {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := s.Reserve(ctx, request); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
}

// The store's own timeout is measured although no caller waits for it.
func TestADeadStoreIsFoundOutBehindImpatientCallers(t *testing.T) {
	timeout := make(chan struct{})
	behind := &store{do: func(context.Context) error { <-timeout; return errSlow }}
	s := breaker.New(behind, hour)
	runOut(t, s, behind, 3)
	close(timeout)
	if err := s.Close(); err != nil { // waits for them
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	before := behind.times()
	if _, err := s.Reserve(ctx, request); !errors.Is(err, breaker.ErrOpen) || behind.times() != before {
		t.Errorf("asked %d times, %d before: %v", behind.times(), before, err)
	}
}

// granting grants when it is told to, and notes what is released.
type granting struct {
	quota.Store
	asked, grant chan struct{}
	released     []string
}

func (g *granting) Reserve(_ context.Context, r quota.Request) (quota.Verdict, error) {
	g.asked <- struct{}{}
	<-g.grant
	return quota.Verdict{Allowed: true, ID: r.ID, Nonce: quota.Nonce{1}}, nil
}

func (g *granting) Settle(_ context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	if units == nil {
		g.released = append(g.released, t.ID)
	}
	return quota.Settlement{}, nil
}

// What is granted to a caller that has left is released behind it. An id of the caller's stays: it may
// ask again, and its call must not lose its units then.
func TestAGrantBehindACallerIsReleased(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		behind := &granting{asked: make(chan struct{}), grant: make(chan struct{})}
		s := breaker.New(behind, hour)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-behind.asked; cancel() }()
		r := request
		r.ID, r.Fresh = "one", fresh
		if _, err := s.Reserve(ctx, r); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(behind.grant)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := len(behind.released) == 1; got != fresh {
			t.Errorf("fresh %t: released %v", fresh, behind.released)
		}
	}
}

func TestProbe(t *testing.T) {
	changes := make(chan bool, 10)
	behind := &store{do: dead}
	s := breaker.New(behind, &breaker.Options{Probe: 10 * time.Millisecond, Changed: func(dead bool) { changes <- dead }})
	for range 3 {
		s.Reserve(t.Context(), request)
	}
	if !<-changes {
		t.Error("found alive after three failures")
	}
	behind.now(alive)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := s.Reserve(t.Context(), request); err == nil {
			break
		} else if !errors.Is(err, breaker.ErrOpen) || time.Now().After(deadline) {
			t.Fatal("a caller paid for a probe:", err)
		}
	}
	if <-changes {
		t.Error("not found alive again")
	}
	behind.now(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
			return nil
		}
	})
	if _, err := s.Reserve(t.Context(), request); err != nil {
		t.Error("given up, though the store is back:", err)
	}
	behind.now(dead)
	for range 3 {
		s.Reserve(t.Context(), request)
	}
	if !<-changes {
		t.Error("not found dead again")
	}
}
