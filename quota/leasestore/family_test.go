package leasestore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// familyRig is a rig whose calls are for the key "hot" of a family.
func familyRig(t *testing.T, windows ...window.Limit) *rig {
	t.Helper()
	r := newRig(t, windows...)
	r.charge.Pool, r.charge.MaxKeys = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "hot"}, 1000
	return r
}

// key returns the charge of another key.
func (r *rig) key(key string) quota.Charge {
	c := r.charge
	c.Pool.Key = key
	return c
}

// wait waits until something is so.
func (r *rig) wait(what string, is func() bool) {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("after a minute, %s is not so", what)
		}
	}
}

// Keys of a family leave no receipts. Blocks of them keep the limit all the same.
func TestFamilies(t *testing.T) {
	t.Run("most_calls_of_a_hot_key_do_not_ask_the_ledger", func(t *testing.T) {
		for _, windows := range [][]window.Limit{nil, {limit(100, window.Spec{Per: time.Minute, Algorithm: window.Estimate})}} {
			r := familyRig(t, windows...)
			for i := range int64(10) { // one call, and blocks of four and five
				v := r.grant(r.one)
				if v.Used != i+1 || v.Remaining != 99-i || v.ID != fmt.Sprint("call", i+1) || v.Token() != (quota.Token{}) {
					t.Errorf("call %d: %+v", i, v)
				}
			}
			if asked := r.ledger.asked.Load(); asked != 3 {
				t.Errorf("10 calls asked the ledger %d times, want 3", asked)
			}
			if err := r.one.Close(); err != nil || r.used() != 10 || r.ledger.back.Load() != 0 {
				t.Errorf("after close (%v) %d units count, and %d times something went back; the blocks were used up", err, r.used(), r.ledger.back.Load())
			}
		}
	})
	t.Run("what_is_left_goes_back", func(t *testing.T) {
		for name, end := range map[string]func(*rig) error{
			"at close":  func(r *rig) error { return r.one.Close() },
			"at expiry": func(r *rig) error { r.clock.Advance(r.life); r.one.Expire(r.clock.Now()); return nil },
			"at a look": func(r *rig) error {
				_, err := r.one.Look(r.Context(), []quota.Charge{r.charge})
				return err
			},
			"if the clock was set back": func(r *rig) error {
				r.clock.Advance(-time.Second)
				r.grant(r.one, r.charge) // of the next block
				r.calls--
				_, err := r.one.Look(r.Context(), []quota.Charge{r.charge})
				r.calls++
				return err
			},
		} {
			r := familyRig(t)
			r.block(r.one)
			if used := r.used(); used != 5 {
				t.Fatalf("%d units count, want 5", used)
			}
			if err := end(r); err != nil || r.used() != int64(r.calls) || r.one.Open() != 0 {
				t.Errorf("%s (%v): %d units count, want %d; %d blocks", name, err, r.used(), r.calls, r.one.Open())
			}
		}
	})
	t.Run("a_refusal_gives_back_first", func(t *testing.T) {
		r := familyRig(t, limit(6, window.Spec{Per: time.Minute, Late: 2 * time.Second}))
		r.block(r.one) // 5 units count, 2 are used
		r.charge.Units = 4
		r.grant(r.one)
		if v, err := r.ask(r.one, r.key("hot")); err != nil || v.Allowed || v.Used != 6 {
			t.Errorf("%+v %v, want a refusal with all 6 units used", v, err)
		}
	})
	t.Run("an_answer_that_was_lost_gives_nothing_back_twice", func(t *testing.T) {
		r := familyRig(t)
		r.block(r.one)
		r.grant(r.two)
		r.grant(r.two) // the other process has three units left, too
		lost := errors.New("the answer was lost")
		r.ledger.lose = func() error { return lost }
		r.one.GiveBack()
		r.ledger.lose = nil
		r.clock.Advance(time.Second)
		if err := r.one.Close(); err != nil || r.ledger.back.Load() != 1 || r.used() != 2+5 {
			t.Errorf("%v: told %d times, and %d units count, want 7 until the other process has ended", err, r.ledger.back.Load(), r.used())
		}
	})
	t.Run("what_was_not_told_is_told_again", func(t *testing.T) {
		r := familyRig(t)
		r.block(r.one)
		r.ledger.lose = func() error { return fmt.Errorf("the breaker is open: %w", quota.ErrNotAsked) }
		r.one.GiveBack()
		r.ledger.lose = nil
		if err := r.one.Close(); err != nil || r.used() != 2 {
			t.Errorf("%v: %d units count, want 2", err, r.used())
		}
	})
	t.Run("the_answer_to_a_block_was_lost", func(t *testing.T) {
		r := familyRig(t)
		r.grant(r.one)
		r.ledger.fail = func(context.Context) error { return errors.New("the answer was lost") }
		if _, err := r.ask(r.one); err == nil {
			t.Fatal("granted without an answer")
		}
		r.ledger.fail = nil
		if err := r.one.Close(); err != nil || r.used() != 5 {
			t.Errorf("%v: %d units count, want 5: nobody knows whether the block was taken", err, r.used())
		}
	})
	t.Run("a_caller_that_leaves_strands_no_block", func(t *testing.T) {
		r := familyRig(t)
		r.grant(r.one)
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan struct{})
		r.ledger.fail = func(context.Context) error { cancel(); <-answer; return nil }
		v, err := r.one.Reserve(ctx, quota.Request{Charges: []quota.Charge{r.charge}, Labels: quota.Labels{Method: "list"}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%+v %v, want that it was cancelled", v, err)
		}
		r.ledger.fail = nil
		close(answer)
		if err := r.one.Close(); err != nil || r.used() != 1 {
			t.Errorf("after close (%v) %d units count, want that of the first call", err, r.used())
		}
	})
	t.Run("a_limit_that_is_set_while_a_block_is_out", func(t *testing.T) {
		r := familyRig(t)
		r.block(r.one) // 5 units count, 2 are used
		set := func(n int64) (c quota.Charge) {
			c = r.charge
			c.Windows, c.MaxKeys = []window.Limit{c.Windows[0]}, 0
			c.Windows[0].Limit = n
			return c
		}
		r.grant(r.one, set(3))
		if v, err := r.ask(r.one, set(3)); err != nil || v.Allowed || v.Used != 3 {
			t.Errorf("lowered to 3: %+v %v, want a refusal with 3 used", v, err)
		}
		for range 3 {
			r.grant(r.one, set(6))
		}
		if v, err := r.ask(r.one, set(6)); err != nil || v.Allowed || v.Used != 6 {
			t.Errorf("raised to 6: %+v %v, want a refusal with 6 used", v, err)
		}
		r.grant(r.one) // that of the price book again
	})
	t.Run("keys_that_share_a_page_have_no_blocks", func(t *testing.T) {
		r := familyRig(t)
		r.charge.MaxKeys = 1
		r.grant(r.one)
		for range 5 {
			if v := r.grant(r.one, r.key("late")); !v.Overflow {
				t.Fatalf("%+v, want the page that keys share", v)
			}
		}
		if asked := r.ledger.asked.Load(); asked != 6 || r.one.Open() != 0 {
			t.Errorf("the ledger was asked %d times, want 6; there are %d blocks", asked, r.one.Open())
		}
	})
}

// A key that is not hot costs what it costs without a lease, and leaves nothing in the process.
func TestColdKeys(t *testing.T) {
	r := familyRig(t)
	r.charge.MaxKeys = 1_000_000
	s := leasestore.New(r.ledger, &leasestore.Options{Clock: r.clock})
	const keys = 20_000
	for i := range keys {
		r.grant(s, r.key(fmt.Sprint("key", i)))
	}
	if asked := r.ledger.asked.Load(); asked != keys || r.ledger.back.Load() != 0 || s.Lines() != 0 || s.Open() != 0 {
		t.Errorf("%d keys that are used once: asked %d times, %d lines, %d blocks", keys, asked, s.Lines(), s.Open())
	}
	for range 10 { // each second a call
		r.grant(s)
		r.clock.Advance(r.life / 2)
	}
	if asked := r.ledger.asked.Load(); asked != keys+10 || s.Lines() != 0 {
		t.Errorf("a key with a call each second has asked %d times, and has %d lines", asked-keys, s.Lines())
	}
	allocs := func(s quota.Store) float64 {
		names := make([]string, 101)
		for i := range names {
			names[i] = fmt.Sprint("key", i)
		}
		once, n := []quota.Charge{r.charge}, 0
		return testing.AllocsPerRun(len(names)-1, func() {
			once[0].Pool.Key = names[n]
			n++
			_, _ = s.Reserve(t.Context(), quota.Request{Charges: once})
		})
	}
	if plain, leased := allocs(r.ledger), allocs(s); leased > plain {
		t.Errorf("a call of a key that is not hot allocates %v times, without leases %v times", leased, plain)
	}
}

// A hot key that goes quiet gives back what is left, and its line is forgotten.
func TestAHotKeyThatGoesQuiet(t *testing.T) {
	r := familyRig(t, limit(1_000_000, window.Spec{Per: time.Minute, Late: 2 * time.Second}))
	s := leasestore.New(r.ledger, nil) // by the machine's clock
	r.charge.Lease = quota.Lease{Life: 200 * time.Millisecond, Most: 1000}
	r.wait("the key being hot", func() bool { r.grant(s); return s.Open() > 0 })
	if s.Lines() != 1 {
		t.Errorf("there are %d lines, want 1", s.Lines())
	}
	r.wait("its line being forgotten", func() bool { return s.Lines() == 0 && s.Open() == 0 })
	r.wait("its rest being back", func() bool { return r.used() == int64(r.calls) })
}
