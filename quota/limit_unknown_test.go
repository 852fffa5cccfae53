package quota_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
)

// unreadable is a store whose limits cannot be read for a while, although its pages can.
type unreadable struct {
	quota.Store
	quota.LimitKeeper
	down atomic.Bool
}

func (u *unreadable) KeyLimits(ctx context.Context, after int64, most int) ([]quota.KeyLimit, error) {
	if u.down.Load() {
		return nil, errors.New("no route to the limits")
	}
	return u.LimitKeeper.KeyLimits(ctx, after, most)
}

func (u *unreadable) KeyLimit(ctx context.Context, family, key string) (*quota.KeyLimit, error) {
	if u.down.Load() {
		return nil, errors.New("no route to the limits")
	}
	return u.LimitKeeper.KeyLimit(ctx, family, key)
}

func newUnreadable(s quota.Store) *unreadable {
	return &unreadable{Store: s, LimitKeeper: s.(quota.LimitKeeper)}
}

// TestAnUnknownLimitIsAnOutage: a process that has just started, and cannot read the limits
// that were set at run time, does not take the price book's for them.
func TestAnUnknownLimitIsAnOutage(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			newLimitLedger(t, open()).set("acme", 1) // 3 by the price book
			s := newUnreadable(open())
			s.down.Store(true)
			l := newLimitLedger(t, s)
			for range 3 {
				_, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "acme"})
				if !errors.Is(err, quota.ErrOutage) || !strings.Contains(err.Error(), "is unknown: no route to the limits") {
					t.Fatalf("while the limits cannot be read: %v, want an outage", err)
				}
				if _, err := l.Check(t.Context(), quota.Call{Family: "client", Key: "acme"}); !errors.Is(err, quota.ErrOutage) {
					t.Errorf("checked while the limits cannot be read: %v, want an outage", err)
				}
			}
			quota.AwaitLimits(l.Ledger) // they could not be read, which was before the next second
			s.down.Store(false)
			l.clock.ahead.Add(int64(time.Second))
			if got := l.granted("acme"); got != 1 {
				t.Errorf("as soon as the limits can be read, %d are granted, want 1", got)
			}
			quota.AwaitLimits(l.Ledger)
			s.down.Store(true) // from now on, the last known limits hold
			l.clock.ahead.Add(int64(2 * time.Hour))
			if got := l.granted("acme"); got > 1 {
				t.Errorf("in an outage after that, %d are granted, want 1", got)
			}
			if got := l.granted("somebody"); got != 2 {
				t.Errorf("in an outage after that, %d are granted to a key without a limit of its own, want the book's 2", got)
			}
		})
	}
}

// TestAnUnknownLimitFollowsThePolicy: it is an outage like any other one.
func TestAnUnknownLimitFollowsThePolicy(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "ledger")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = j.Close() })
			newSharedLedger(t, open()).observe("units", "default", 24*time.Hour, 20)
			s := newUnreadable(open())
			s.down.Store(true)
			l := newSharedLedger(t, s)
			if l.Ledger, err = quota.New(l.Book(), s, &quota.Options{Clock: l.clock, Journal: j, Allowance: 50}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Reserve(t.Context(), quota.Call{Method: "get"}); !errors.Is(err, quota.ErrOutage) {
				t.Errorf("refused by policy: %v, want an outage", err)
			}
			if _, err := l.Check(t.Context(), quota.Call{Method: "get"}); !errors.Is(err, quota.ErrOutage) {
				t.Errorf("checked: %v, want an outage", err)
			}
			r, err := l.Reserve(t.Context(), quota.Call{Method: "big", Outage: quota.Admit})
			if err != nil || !r.Outage {
				t.Fatalf("admitted by policy: %+v %v", r, err)
			}
			if _, err := l.Reserve(t.Context(), quota.Call{Method: "big", Outage: quota.Admit}); !errors.Is(err, quota.ErrOutage) {
				t.Errorf("beyond the allowance: %v, want an outage", err)
			}
		})
	}
}

// TestAnUnknownReportedLimitIsAnOutage: so is one that answers have reported, of a key and of a
// shorter window, too.
func TestAnUnknownReportedLimitIsAnOutage(t *testing.T) {
	for name, open := range limitStores(t) {
		t.Run(name, func(t *testing.T) {
			observe(t, newSharedLedgerOf(t, open(), heardBook), quota.Observation{Pool: hubPool("tokens"), Per: time.Minute, Limit: 150})
			s := newUnreadable(open())
			s.down.Store(true)
			l, call := newSharedLedgerOf(t, s, heardBook), quota.Call{Method: "chat", Keys: map[string]string{"tokens": "sonnet"}}
			for range 2 {
				if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrOutage) {
					t.Fatalf("while the limits cannot be read: %v, want an outage", err)
				}
				if _, err := l.Check(t.Context(), call); !errors.Is(err, quota.ErrOutage) {
					t.Errorf("checked while the limits cannot be read: %v, want an outage", err)
				}
			}
			s.down.Store(false)
			l.clock.ahead.Add(int64(time.Second))
			must(t, l.Ledger, call)
			if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
				t.Errorf("beyond the limit, as soon as it can be read: %v", err)
			}
		})
	}
}

// TestOneLimitIsReadWhileAllCannotBe: a decision needs the limit of its own key only.
func TestOneLimitIsReadWhileAllCannotBe(t *testing.T) {
	open := limitStores(t)["memory"]
	newLimitLedger(t, open()).set("acme", 1)
	s := &oneByOne{unreadable: newUnreadable(open())}
	l := newLimitLedger(t, s)
	for range 5 {
		if _, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "acme"}); err != nil && !errors.Is(err, quota.ErrRefused) {
			t.Fatal(err)
		}
		quota.AwaitLimits(l.Ledger) // they could not be read
	}
	u, err := l.Check(t.Context(), quota.Call{Family: "client", Key: "acme"})
	if !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%+v %v, want the limit of 1 used up", u, err)
	}
}

// oneByOne is a store that cannot read all limits, only those of single keys.
type oneByOne struct{ *unreadable }

func (o *oneByOne) KeyLimits(context.Context, int64, int) ([]quota.KeyLimit, error) {
	return nil, errors.New("it takes too long")
}

// TestAnImpatientCallerSpoilsNoLimits: a caller without time does not make the next one wait or
// fail: what its patience cuts off says nothing about the store.
func TestAnImpatientCallerSpoilsNoLimits(t *testing.T) {
	f := newFakeLimits() // whose list of limits is never read
	f.found = make(chan struct{})
	l := newLimitLedger(t, f)
	hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := l.Reserve(hurried, quota.Call{Family: "client", Key: "bob"}); err == nil {
		t.Error("a caller without time was answered")
	}
	close(f.found)
	if _, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "bob"}); err != nil {
		t.Errorf("a patient caller after it: %v", err)
	}
	close(f.load)
}
