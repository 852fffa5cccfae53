package pagestore_test

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// brokenClock panics in its first reading.
type brokenClock struct {
	quota.SystemClock
	once sync.Once
}

func (c *brokenClock) Now() time.Time {
	c.once.Do(func() { panic("the clock is broken") })
	return c.SystemClock.Now()
}

// A server recovers from a panic in one request, and asks the same store for the next.
func TestAPanicEndsOneCallOnly(t *testing.T) {
	for name, open := range map[string]func(quota.Clock) quota.Store{
		"memory": func(c quota.Clock) quota.Store { return memstore.New(&memstore.Options{Clock: c}) },
		"sqlite": func(c quota.Clock) quota.Store {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), &sqlitestore.Options{Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(&brokenClock{})
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic is swallowed")
					}
				}()
				_, _ = s.Reserve(t.Context(), request("a", 3))
			}()
			next := make(chan error, 1)
			go func() {
				v, err := s.Reserve(t.Context(), request("b", 3))
				if err == nil && v.Used != 3 {
					t.Errorf("%d units used, want 3", v.Used)
				}
				next <- err
			}()
			select {
			case err := <-next:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the next call hangs")
			}
		})
	}
}

// brokenBirths panics when it is first asked.
type brokenBirths struct{ once sync.Once }

func (b *brokenBirths) Recall(context.Context, quota.Pool) (storekit.Birth, error) {
	b.once.Do(func() { panic("the journal is broken") })
	return storekit.Birth{}, nil
}

func (b *brokenBirths) Remember(context.Context, quota.Pool, storekit.Birth) error { return nil }

// If a caller panics, all callers that share its transaction get an error.
func TestAPanicHangsNobody(t *testing.T) {
	clock := &heldClock{held: make(chan struct{})}
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
		&sqlitestore.Options{Clock: clock, Wait: time.Minute, Births: &brokenBirths{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	panicked, shared := make(chan any, 1), make(chan error, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = s.Reserve(context.Background(), request("a", 3))
	}()
	clock.read()
	go func() {
		_, err := s.Reserve(context.Background(), request("b", 3))
		shared <- err
	}()
	for s.Waiting() < 1 {
		runtime.Gosched()
	}
	close(clock.held)
	if <-panicked == nil {
		t.Error("the panic is swallowed")
	}
	select {
	case err := <-shared:
		if err == nil {
			t.Error("granted in a transaction that was not committed")
		}
	case <-time.After(time.Minute):
		t.Fatal("a caller hangs")
	}
	if v, err := s.Reserve(t.Context(), request("b", 3)); err != nil || v.Used != 3 || v.Repeat {
		t.Errorf("the next call: %+v %v, want 3 units used", v, err)
	}
}
