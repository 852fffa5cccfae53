package leasestore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// rig is a ledger with two processes, whose blocks are for four calls.
type rig struct {
	*testing.T
	clock    *quota.SimClock
	ledger   *watched
	one, two *leasestore.Store
	charge   quota.Charge
	calls    int
	life     time.Duration
}

// watched counts the reservations that reach the ledger.
type watched struct {
	quota.Store
	asked atomic.Int64
	fail  func(context.Context) error // after the store has answered
	back  atomic.Int64                // records that reach the ledger
	lose  func() error                // before a record, or after it if it is an outage
}

func (w *watched) Record(ctx context.Context, r quota.Request) (quota.Units, error) {
	w.back.Add(1)
	var lost error
	if w.lose != nil {
		if lost = w.lose(); errors.Is(lost, quota.ErrNotAsked) {
			return nil, lost
		}
	}
	units, err := w.Store.Record(ctx, r)
	if lost != nil {
		return nil, lost
	}
	return units, err
}

func (w *watched) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	w.asked.Add(1)
	v, err := w.Store.Reserve(ctx, r)
	if w.fail != nil && err == nil {
		if err := w.fail(ctx); err != nil {
			return quota.Verdict{}, err
		}
	}
	return v, err
}

func newRig(t *testing.T, windows ...window.Limit) *rig {
	t.Helper()
	if windows == nil {
		windows = []window.Limit{limit(100, window.Spec{Per: time.Minute, Late: 2 * time.Second})}
	}
	r := &rig{T: t, clock: quota.NewSimClock(start.Add(time.Minute)), life: 2 * time.Second}
	r.ledger = &watched{Store: memstore.New(&memstore.Options{Clock: r.clock})}
	r.one, r.two = r.start(), r.start()
	r.charge = quota.Charge{
		Pool:  quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"},
		Units: 1, Windows: windows, Revision: 1, Lease: quota.Lease{Life: r.life, Most: 50},
	}
	return r
}

func (r *rig) start() *leasestore.Store {
	return leasestore.Eager(r.ledger, &leasestore.Options{Clock: r.clock}, 4)
}

// ask reserves under a fresh id.
func (r *rig) ask(s quota.Store, charges ...quota.Charge) (quota.Verdict, error) {
	if charges == nil {
		charges = []quota.Charge{r.charge}
	}
	r.calls++
	return s.Reserve(r.Context(), quota.Request{ID: fmt.Sprint("call", r.calls), Fresh: true, Charges: charges, Labels: quota.Labels{Method: "list"}})
}

// grant reserves, and wants it to be granted.
func (r *rig) grant(s quota.Store, charges ...quota.Charge) quota.Verdict {
	r.Helper()
	v, err := r.ask(s, charges...)
	if err != nil || !v.Allowed {
		r.Fatalf("reserve: %+v %v", v, err)
	}
	return v
}

// block makes a process take a block, of which one call is used.
func (r *rig) block(s quota.Store) {
	r.Helper()
	r.grant(s) // tells how much there is
	r.grant(s)
}

// used returns the units that the ledger counts.
func (r *rig) used() int64 {
	r.Helper()
	pages, err := r.ledger.Look(r.Context(), []quota.Charge{r.charge})
	if err != nil {
		r.Fatal(err)
	}
	return pages[0].Windows[0].Used
}

func TestBlocks(t *testing.T) {
	t.Run("most_calls_do_not_ask_the_ledger", func(t *testing.T) {
		r := newRig(t)
		for i := range int64(9) {
			if v := r.grant(r.one); v.Used != i+1 || v.Remaining != 99-i || v.Window != "1m" {
				t.Errorf("call %d: %+v", i, v)
			}
		}
		if asked := r.ledger.asked.Load(); asked != 3 { // one call, and two blocks of four
			t.Errorf("9 calls asked the ledger %d times, want 3", asked)
		}
	})
	t.Run("what_is_left_goes_back_at_close", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		if used := r.used(); used != 5 {
			t.Errorf("%d units count, want 5", used)
		}
		if err := r.one.Close(); err != nil || r.used() != 2 {
			t.Errorf("after close (%v) %d units count, want 2", err, r.used())
		}
		r.grant(r.one)
		r.grant(r.one)
		if used := r.used(); used != 4 || r.one.Open() != 0 {
			t.Errorf("a closed store has %d blocks, and %d units count, want 4", r.one.Open(), used)
		}
	})
	t.Run("what_is_left_goes_back_at_expiry", func(t *testing.T) {
		r := newRig(t)
		s := leasestore.New(r.ledger, nil) // by the machine's clock
		r.charge.Lease.Life = 200 * time.Millisecond
		for s.Open() == 0 { // until its rate is known
			r.grant(s)
		}
		for s.Open() > 0 {
			time.Sleep(time.Millisecond)
		}
		for deadline := time.Now().Add(time.Minute); r.used() != int64(r.calls); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d units count of %d calls", r.used(), r.calls)
			}
		}
	})
	t.Run("no_block_lives_longer_than_its_life", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		r.clock.Advance(r.life - time.Microsecond)
		r.grant(r.one)
		if asked := r.ledger.asked.Load(); asked != 2 {
			t.Errorf("within its life, the ledger was asked %d times, want 2", asked)
		}
		r.clock.Advance(time.Microsecond)
		r.grant(r.one)
		if asked := r.ledger.asked.Load(); asked != 3 {
			t.Errorf("after its life, the ledger was asked %d times, want 3", asked)
		}
	})
	t.Run("a_clock_that_was_set_back_ends_a_block", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		r.clock.Advance(-time.Second)
		r.grant(r.one)
		if asked := r.ledger.asked.Load(); asked != 3 {
			t.Errorf("the ledger was asked %d times, want 3", asked)
		}
	})
	t.Run("a_block_ends_a_lag_before_a_boundary", func(t *testing.T) {
		r := newRig(t, limit(100, window.Spec{Period: window.Hour, Lag: 10 * time.Second}))
		r.charge.Lease.Life = time.Minute
		r.clock.Set(start.Truncate(time.Hour).Add(time.Hour - 12*time.Second))
		r.block(r.one)
		r.clock.Advance(2*time.Second - time.Microsecond)
		r.grant(r.one)
		if asked := r.ledger.asked.Load(); asked != 2 {
			t.Errorf("before the lag, the ledger was asked %d times, want 2", asked)
		}
		r.clock.Advance(time.Microsecond)
		r.grant(r.one)
		if asked := r.ledger.asked.Load(); asked != 3 || r.one.Open() != 0 {
			t.Errorf("within the lag, the ledger was asked %d times, want 3; there are %d blocks", asked, r.one.Open())
		}
		r.clock.Advance(10 * time.Second)
		r.block(r.one)
		if r.one.Open() == 0 {
			t.Error("after the boundary, there is no block")
		}
	})
	t.Run("logs_counters_and_buckets_have_no_blocks", func(t *testing.T) {
		for _, spec := range []window.Spec{
			{Per: time.Minute, Algorithm: window.Exact},
			{Per: time.Minute, Algorithm: window.Estimate},
			{Per: time.Minute, Algorithm: window.Leaky, Rate: 100},
		} {
			r := newRig(t, limit(100, spec))
			for range 5 {
				r.grant(r.one)
			}
			if asked := r.ledger.asked.Load(); asked != 5 {
				t.Errorf("%s: 5 calls asked the ledger %d times", spec, asked)
			}
		}
	})
	t.Run("the_wire_may_lose_the_answer_to_a_block", func(t *testing.T) {
		r := newRig(t)
		r.grant(r.one)
		lost := true
		r.ledger.fail = func(context.Context) error {
			if lost {
				lost = false
				return errors.New("the answer was lost")
			}
			return nil
		}
		if _, err := r.ask(r.one); err == nil {
			t.Fatal("granted without an answer")
		}
		r.one.Expire(r.clock.Now())
		if used := r.used(); used != 1 {
			t.Errorf("%d units count, want 1", used)
		}
	})
	t.Run("a_call_that_is_cancelled_takes_nothing", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.one.Reserve(ctx, quota.Request{Charges: []quota.Charge{r.charge}}); !errors.Is(err, context.Canceled) {
			t.Errorf("reserve: %v", err)
		}
		if v := r.grant(r.one); v.Used != 3 {
			t.Errorf("%d units are used, want 3", v.Used)
		}
	})
}

// Limits are those of the call, not those of the block.
func TestEffectiveLimits(t *testing.T) {
	t.Run("a_class_that_keeps_a_part_free_is_not_served_by_an_ordinary_block", func(t *testing.T) {
		r := newRig(t)
		backfill := r.charge
		backfill.Windows = []window.Limit{r.charge.Windows[0]}
		backfill.Windows[0].Limit = 5
		for range 5 {
			r.grant(r.one)
		}
		r.grant(r.one) // a new block
		if v, err := r.ask(r.one, backfill); err != nil || v.Allowed || v.Used != 6 {
			t.Errorf("%+v %v, want a refusal with 6 units used", v, err)
		}
	})
	t.Run("a_lower_limit_applies_at_once", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		r.charge.Windows = []window.Limit{r.charge.Windows[0]}
		r.charge.Windows[0].Limit = 2
		if v, err := r.ask(r.one); err != nil || v.Allowed || v.Limit != 2 {
			t.Errorf("%+v %v, want a refusal with a limit of 2", v, err)
		}
	})
	t.Run("a_refusal_asks_the_ledger_for_what_other_labels_have_left", func(t *testing.T) {
		r := newRig(t, limit(6, window.Spec{Per: time.Minute, Late: 2 * time.Second}))
		r.block(r.one) // 5 units count, 2 are used
		for n := range 5 {
			v, err := r.one.Reserve(t.Context(), quota.Request{Charges: []quota.Charge{r.charge}, Labels: quota.Labels{Job: fmt.Sprint(n)}})
			if err != nil || v.Allowed != (n < 4) {
				t.Fatalf("call %d: %+v %v", n, v, err)
			}
		}
	})
	t.Run("an_id_of_the_caller_is_the_ledgers", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		same := quota.Request{ID: "mine", Charges: []quota.Charge{r.charge}}
		for i, s := range []quota.Store{r.one, r.two, r.one} {
			v, err := s.Reserve(t.Context(), same)
			if err != nil || !v.Allowed || v.Repeat != (i > 0) || v.ID != "mine" {
				t.Errorf("time %d: %+v %v", i, v, err)
			}
			if i == 0 && v.Used != 3 { // without the rest of the block
				t.Errorf("%d units are used, want 3", v.Used)
			}
		}
	})
}

// What one process does, another one knows within the life of a block.
func TestOtherProcesses(t *testing.T) {
	until := func(r *rig, s quota.Store, want string) {
		r.Helper()
		for range 4 {
			v, err := r.ask(s)
			if err == nil && v.Allowed {
				continue
			}
			if got := fmt.Sprintf("%s %v", v.Reason, err); !strings.Contains(got, want) {
				r.Fatalf("refused: %+v %v, want %q", v, err, want)
			}
			return
		}
		r.Fatalf("nothing was refused, want %q", want)
	}
	t.Run("a_block_by_the_upstream", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		r.block(r.two)
		shut := quota.BlockRequest{Charges: []quota.Charge{r.charge}, For: time.Hour, Reason: "quotaExceeded"}
		if err := r.two.Block(t.Context(), shut); err != nil {
			t.Fatal(err)
		}
		if v, err := r.ask(r.two); err != nil || !v.Blocked {
			t.Errorf("the process itself: %+v %v, want a block", v, err)
		}
		if v := r.grant(r.one); v.Blocked { // it does not know yet
			t.Errorf("%+v", v)
		}
		r.clock.Advance(r.life)
		if v, err := r.ask(r.one); err != nil || !v.Blocked || v.Reason != "quotaExceeded" {
			t.Errorf("after the life of its block: %+v %v, want a block", v, err)
		}
		if err := r.two.Block(t.Context(), quota.BlockRequest{Charges: shut.Charges, Open: true}); err != nil {
			t.Fatal(err)
		}
		r.grant(r.one) // at once
	})
	t.Run("a_correction", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		if _, err := r.two.Record(t.Context(), quota.Request{Charges: []quota.Charge{{
			Pool: r.charge.Pool, Units: 200, Windows: r.charge.Windows, Revision: 1,
		}}}); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(r.life)
		v, err := r.ask(r.one) // the rest of its block is on its way back
		if err != nil || v.Allowed || v.Used != 202 {
			t.Errorf("%+v %v, want a refusal with 202 units used", v, err)
		}
	})
	t.Run("a_refusal_counts_no_units_that_came_back_meanwhile", func(t *testing.T) {
		r := newRig(t, limit(5, window.Spec{Per: time.Minute, Late: 2 * time.Second}))
		r.block(r.one)
		if used := r.used(); used != 5 {
			t.Fatalf("%d units count, want 5: three of them in a block", used)
		}
		r.ledger.fail = func(ctx context.Context) error { // the ledger has refused, and the caller does not know yet
			r.ledger.fail = nil
			_, err := r.one.Look(ctx, []quota.Charge{r.charge})
			return err
		}
		three := r.charge
		three.Units = 3
		if v, err := r.one.Reserve(t.Context(), quota.Request{Charges: []quota.Charge{three}}); err != nil || !v.Allowed {
			t.Errorf("the three units of the block: %+v %v, want them to be granted", v, err)
		}
	})
	t.Run("its_own_correction_gives_back_what_is_used_and_no_more", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		less := r.charge
		less.Units = -100
		got, err := r.one.Record(t.Context(), quota.Request{Charges: []quota.Charge{less}})
		if err != nil || got["units"] != -2 || r.used() != 0 {
			t.Errorf("recorded %v (%v), and %d units count; want -2 and 0", got, err, r.used())
		}
	})
	t.Run("a_higher_revision", func(t *testing.T) {
		r := newRig(t)
		r.block(r.one)
		next := r.charge
		next.Revision, next.Windows = 2, []window.Limit{limit(100, window.Spec{Per: 2 * time.Minute, Late: 2 * time.Second})}
		r.grant(r.two, next)
		r.clock.Advance(r.life)
		until(r, r.one, "revision")
		if asked, err := r.ask(r.one, next); err != nil || !asked.Allowed || asked.Used > 7 {
			t.Errorf("with the new book: %+v %v", asked, err)
		}
	})
}

// TestCloseWaitsForABlock that is being taken: when it returns, the units are back.
func TestCloseWaitsForABlock(t *testing.T) {
	r := newRig(t)
	s := leasestore.Eager(r.ledger, &leasestore.Options{Clock: r.clock, Timeout: time.Minute}, 4)
	r.grant(s) // tells how much there is
	asked, answer, served := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.ledger.fail = func(context.Context) error {
		close(asked)
		<-answer
		return nil
	}
	go func() {
		defer close(served)
		if v, err := r.ask(s); err != nil || !v.Allowed {
			t.Errorf("the call that takes the block: %+v, %v", v, err)
		}
	}()
	<-asked
	go func() {
		for !s.Closed() {
			runtime.Gosched()
		}
		time.Sleep(10 * time.Millisecond) // in which a Close that does not wait returns
		close(answer)
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-answer:
	default:
		t.Error("Close does not wait for the block that is being taken")
	}
	if used := r.used(); used != 2 {
		t.Errorf("%d units are used after Close, want those of two calls", used)
	}
	<-served
}

// abandoned is a ledger that takes a block, and gives it back, behind a caller that has left.
type abandoned struct {
	quota.Store
	leave   func() // the next caller leaves
	request quota.Request
	arrive  func() // the request, at the ledger
}

func (a *abandoned) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if a.leave != nil {
		a.request = r
		a.leave()
		a.leave = nil
		return quota.Verdict{}, ctx.Err()
	}
	v, err := a.Store.Reserve(ctx, r)
	if r.ID == a.request.ID {
		a.arrive() // after one with its id, which is not released yet
	}
	return v, err
}

// TestACallerThatLeavesOwesNothing: the ledger gives back what it takes behind a caller that has
// left.
func TestACallerThatLeavesOwesNothing(t *testing.T) {
	r := newRig(t)
	a := &abandoned{Store: r.ledger}
	a.arrive = sync.OnceFunc(func() {
		v, err := r.ledger.Reserve(context.Background(), a.request)
		if err == nil {
			_, err = r.ledger.Settle(context.Background(), v.Token(), nil)
		}
		if err != nil {
			t.Error(err)
		}
	})
	s := leasestore.Eager(a, &leasestore.Options{Clock: r.clock}, 4)
	r.grant(s) // tells how much there is
	var ctx context.Context
	ctx, a.leave = context.WithCancel(t.Context())
	if v, err := s.Reserve(ctx, quota.Request{ID: "left", Fresh: true, Charges: []quota.Charge{r.charge}, Labels: quota.Labels{Method: "list"}}); !errors.Is(err, context.Canceled) || len(a.request.Charges) == 0 || a.request.Charges[0].Units != 4 {
		t.Fatalf("%+v %v, asked for %+v; want a block of 4 whose caller has left", v, err, a.request)
	}
	if _, err := s.Look(t.Context(), []quota.Charge{r.charge}); err != nil { // what is owed was told
		t.Fatal(err)
	}
	a.arrive()
	if used := r.used(); used != 1 {
		t.Errorf("%d units count, want that of the first call", used)
	}
}

// TestACallThatNeverFitsEndsNoBlock, and is told what is used without the rest of the block.
func TestACallThatNeverFitsEndsNoBlock(t *testing.T) {
	r := newRig(t)
	r.block(r.one)
	c := r.charge
	c.Units = 101
	v, err := r.one.Reserve(t.Context(), quota.Request{ID: "never", Charges: []quota.Charge{c}})
	if err != nil || !v.Impossible || v.Used != 2 {
		t.Errorf("it is told %+v, %v; want that it never fits, beside 2 that are used", v, err)
	}
	r.grant(r.one)
	if asked := r.ledger.asked.Load(); asked != 3 {
		t.Errorf("the ledger was asked %d times, want 3: the last call is of the block", asked)
	}
}
