package quota_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func TestDo(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		err  error
		used int64
	}{
		{"an answered call stays charged", nil, 1},
		{"a failed call stays charged", boom, 1},
		{"an unsent call is released", fmt.Errorf("dial: %w", quota.ErrUnsent), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, _ := newLedger(t)
			err := l.Do(t.Context(), quota.Call{Upstream: "youtube", Method: "videos.list"}, func(context.Context) error { return test.err })
			if !errors.Is(err, test.err) {
				t.Error(err)
			}
			if n := used(t, l, "units", "24h"); n != test.used {
				t.Errorf("used %d, want %d", n, test.used)
			}
		})
	}
	t.Run("an unsent call of a family stays charged, as families take no receipts", func(t *testing.T) {
		l, _ := newLedger(t)
		call := quota.Call{Family: "client", Key: "k", Units: 2}
		if err := l.Do(t.Context(), call, func(context.Context) error { return quota.ErrUnsent }); err != quota.ErrUnsent { //nolint:errorlint // nothing may be joined to it
			t.Error(err)
		}
		if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
	t.Run("a refused call is not made", func(t *testing.T) {
		l, _ := newLedger(t)
		must(t, l, units(60))
		err := l.Do(t.Context(), units(1), func(context.Context) error { t.Error("called"); return nil })
		if !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
}

// deadline is a context with a deadline by the clock of a test: it never passes.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

func TestWait(t *testing.T) {
	t.Run("waits as long as the ledger says, and hardly longer", func(t *testing.T) {
		l, clock := newLedger(t)
		must(t, l, units(60))
		r, err := l.Wait(t.Context(), units(1), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if waited := clock.Now().Sub(noon); waited < 601*time.Second || waited > 603*time.Second {
			t.Errorf("waited %s", waited)
		}
		if r.Used != 61 {
			t.Errorf("%+v", r.Verdict)
		}
	})
	t.Run("returns a refusal that is farther off at once", func(t *testing.T) {
		l, clock := newLedger(t)
		must(t, l, units(60))
		_, err := l.Wait(t.Context(), units(1), 600*time.Second)
		if !errors.Is(err, quota.ErrRefused) || clock.Now() != noon {
			t.Error(err, clock.Now())
		}
	})
	t.Run("never waits past the deadline of the context", func(t *testing.T) {
		l, clock := newLedger(t)
		must(t, l, units(60))
		_, err := l.Wait(deadline{t.Context(), noon.Add(5 * time.Minute)}, units(1), time.Hour)
		if !errors.Is(err, quota.ErrRefused) || clock.Now() != noon {
			t.Error(err, clock.Now())
		}
	})
	t.Run("ends when it is cancelled", func(t *testing.T) {
		store := memstore.New(nil)
		l, err := quota.New(mustParse(t, testBook), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		must(t, l, units(60))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := l.Wait(ctx, units(1), time.Hour)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("does not wait for what is impossible", func(t *testing.T) {
		l, clock := newLedger(t)
		if _, err := l.Wait(t.Context(), units(91), 1000*time.Hour); !errors.Is(err, quota.ErrImpossible) || clock.Now() != noon {
			t.Error(err)
		}
	})
}

// foreign is a context of another package, which costs a goroutine for each context made from it.
type foreign struct {
	context.Context
	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// A call that has waited leaves nothing behind in its caller's context, which may live as long as the program.
func TestWaitingLeavesNothingBehind(t *testing.T) {
	inLine(t, "for an hour", func(q *queue) {
		q.take("a=200")
		if _, err := q.l.Wait(foreign{q.t.Context(), make(chan struct{})}, charged("a=1"), 2*time.Hour); err != nil {
			q.t.Error(err)
		}
	}) // at the end of its bubble no goroutine may be left
}
