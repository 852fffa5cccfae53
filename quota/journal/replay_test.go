package journal_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// around is a store whose answers can be lost, and that tells when it is asked what.
type around struct {
	quota.Store
	after func(what string) error // the store has done it; an error is what comes back instead
}

func (a *around) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := a.Store.Reserve(ctx, r)
	if err == nil {
		err = a.after("reserve")
	}
	return v, err
}

func (a *around) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	units, err := a.Store.Record(ctx, r)
	if err == nil {
		err = a.after("record")
	}
	return units, err
}

func (a *around) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	s, err := a.Store.Settle(ctx, t, units)
	if err == nil {
		err = a.after("settle")
	}
	return s, err
}

var errLost = errors.New("connection reset")

// A call of 20 units is admitted in an outage and settled while it is put into the
// ledger, or between two tries. However that falls, the ledger has what it cost in
// the end, and the journal has nothing.
func TestSettleDuringTheReplay(t *testing.T) {
	server := durable(t)
	for _, test := range []struct {
		name  string
		when  string // the ledger has done this for the first time
		lost  bool   // its answer does not arrive
		units int64  // what the call is settled to then
	}{
		{name: "down, before the journal knows that it is there", when: "record", units: 5},
		{name: "up", when: "record", units: 25},
		{name: "released", when: "record", units: 0},
		{name: "down, after a lost answer", when: "record", lost: true, units: 5},
		{name: "up, after a lost answer", when: "record", lost: true, units: 25},
		{name: "released after a lost answer", when: "record", lost: true, units: 0},
		{name: "down, admitted because the answer to reserving was lost", when: "reserve", lost: true, units: 5},
		{name: "released, admitted because the answer to reserving was lost", when: "reserve", lost: true, units: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			flush(t, server)
			var r *quota.Reservation
			happened := 0
			settle := func() {
				s, err := r.Settle(t.Context(), quota.Units{"units": test.units})
				if want := (quota.Settlement{Back: max(20-test.units, 0), Charged: max(test.units-20, 0)}); err != nil || s != want {
					t.Errorf("settled: %+v, %v, want %+v", s, err, want)
				}
			}
			p := startBehind(t, server, filepath.Join(t.TempDir(), "journal.db"), func(s quota.Store) quota.Store {
				return &around{Store: s, after: func(what string) error {
					if what != test.when {
						return nil
					}
					if happened++; happened > 1 {
						return nil
					}
					if what == "record" {
						settle()
					}
					if test.lost {
						return errLost
					}
					return nil
				}}
			})
			if test.when != "reserve" {
				server.Kill()
				for range 3 { // until it counts as dead, and is not asked
					p.View().Usage(t.Context(), "", "")
				}
			}
			var err error
			if r, err = p.Reserve(t.Context(), quota.Call{Method: "channels.list"}); err != nil || !r.Outage {
				t.Fatal(r, err)
			}
			if test.when == "reserve" {
				settle()
			} else if err := server.Run(); err != nil {
				t.Fatal(err)
			}
			p.back(t)
			if err := p.Replay(t.Context()); (err != nil) != (test.lost && test.when == "record") {
				t.Fatal(err)
			}
			p.back(t)
			if err := p.Replay(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.settledTo(t, test.units)
			s, err := r.Release(t.Context())
			if want := (quota.Settlement{Back: max(20-test.units, 0), Charged: max(test.units-20, 0), Repeat: true}); err != nil || s != want {
				t.Errorf("the first settlement wins: %+v, %v, want %+v", s, err, want)
			}
		})
	}
}

// A replay counts a call again if its receipt has expired: the ledger then counts too
// much, never too little. A process that dies in a replay causes at most one such call.
func TestReplayAfterTheLifeOfAReceipt(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		want  int64
	}{
		{"within it counts once", quota.ReceiptLife - time.Minute, 20},
		{"after it counts again", quota.ReceiptLife + time.Minute, 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			lost := ""
			store := &around{Store: memstore.New(&memstore.Options{Clock: clock}), after: func(what string) error {
				if what == lost {
					return errLost
				}
				return nil
			}}
			parsed, err := book.Parse("costs.yaml", []byte(prices), nil)
			if err != nil {
				t.Fatal(err)
			}
			l, err := quota.New(parsed, store, &quota.Options{Clock: clock, Journal: newJournal(t)})
			if err != nil {
				t.Fatal(err)
			}
			lost = "reserve"
			if r, err := l.Reserve(t.Context(), quota.Call{Method: "channels.list"}); err != nil || !r.Outage {
				t.Fatal(r, err)
			}
			lost = "record"
			if err := l.Replay(t.Context()); !errors.Is(err, quota.ErrOutage) {
				t.Fatal(err)
			}
			lost = ""
			clock.Advance(test.after)
			if err := l.Replay(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := (&process{Ledger: l}).used(t, "units"); n != test.want {
				t.Errorf("used %d, want %d", n, test.want)
			}
		})
	}
}

func flush(t *testing.T, server *redistest.Server) {
	t.Helper()
	if err := server.With(func(c *redis.Client) error { return c.FlushAll(context.Background()).Err() }); err != nil {
		t.Fatal(err)
	}
}

// settledTo checks what one call of the pool came to: on its page, in its spend, and
// that the journal has nothing more to tell.
func (p *process) settledTo(t *testing.T, units int64) {
	t.Helper()
	if n := p.used(t, "units"); n != units {
		t.Errorf("used %d, want %d", n, units)
	}
	spent, err := p.View().Spend(t.Context(), quota.SpendQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, s := range spent {
		sum += s.Units
	}
	if sum != units {
		t.Errorf("spent %d, want %d: %+v", sum, units, spent)
	}
	if left, err := p.journal.Pending(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left in the journal: %v, %v", left, err)
	}
}
