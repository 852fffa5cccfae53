package quota_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Units that a settled call gives back do not wait for the end of the window.
func TestWaitForSettledUnits(t *testing.T) {
	settle := func(q *queue, r *quota.Reservation, units quota.Units) {
		q.t.Helper()
		if _, err := r.Settle(q.t.Context(), units); err != nil {
			q.t.Fatal(err)
		}
	}
	guess := quota.Call{Upstream: "api", Method: "guess"}
	inLine(t, "the first in line gets them at once", func(q *queue) {
		r := must(q.t, q.l, charged("b=10"))
		q.wait("one", charged("b=5"), 24*time.Hour)
		q.wait("two", charged("b=5"), 24*time.Hour)
		q.after(time.Minute)
		settle(q, r, quota.Units{"b": 5})
		q.after(time.Minute, "one")
		q.after(3*time.Hour, "one", "two")
	})
	inLine(t, "those of a released call, too", func(q *queue) {
		r := must(q.t, q.l, charged("b=10"))
		q.wait("one", charged("b=5"), 24*time.Hour)
		if _, err := r.Release(q.t.Context()); err != nil {
			q.t.Fatal(err)
		}
		q.after(0, "one")
	})
	inLine(t, "who waits for other pools does not ask", func(q *queue) {
		r := must(q.t, q.l, charged("b=10"))
		q.take("a=200")
		leave := q.wait("one", charged("a=1"), 24*time.Hour)
		before := q.store.count()
		settle(q, r, quota.Units{"b": 5})
		q.after(time.Minute)
		if n := q.store.count() - before; n != 0 {
			q.t.Errorf("it asked %d times", n)
		}
		leave()
	})
	inLine(t, "of another process within a second, if the price is an estimate", func(q *queue) {
		other, err := quota.New(mustParse(q.t, lineBook), q.store.Store, nil)
		if err != nil {
			q.t.Fatal(err)
		}
		r := must(q.t, other, charged("c=10"))
		q.wait("one", guess, 24*time.Hour)
		q.after(time.Minute)
		settle(q, r, quota.Units{"c": 5})
		q.after(time.Minute+1100*time.Millisecond, "one")
	})
	inLine(t, "a call whose price is an estimate waits although the window ends too late", func(q *queue) {
		r := must(q.t, q.l, guess)
		q.take("c=5")
		q.wait("one", guess, 10*time.Second)
		q.wait("two", guess, 10*time.Second)
		q.after(5 * time.Second)
		settle(q, r, quota.Units{"c": 0})
		q.after(5*time.Second, "one")
		q.after(time.Minute, "one", "two!")
	})
	inLine(t, "a call whose price is an estimate is refused at once if no call may give units back in time", func(q *queue) {
		settle(q, must(q.t, q.l, guess), quota.Units{"c": 5})
		q.take("c=5")
		q.wait("one", guess, 10*time.Second)
		q.after(0, "one!")
	})
	inLine(t, "a call that is never settled is not waited for without end", func(q *queue) {
		must(q.t, q.l, guess)
		q.take("c=5")
		q.wait("one", guess, 10*time.Second)
		q.after(10*time.Second, "one!")
		q.after(10*time.Minute, "one!")
		q.wait("two", guess, 10*time.Second)
		q.after(10*time.Minute, "one!", "two!")
	})
	inLine(t, "a call that was asked for twice does not end another one", func(q *queue) {
		named := guess
		named.ID = "named"
		first, again, other := must(q.t, q.l, named), must(q.t, q.l, named), must(q.t, q.l, guess)
		copied := *again
		for _, r := range []*quota.Reservation{first, again, &copied} {
			if err := r.Done(q.t.Context()); err != nil {
				q.t.Fatal(err)
			}
		}
		q.wait("one", guess, 10*time.Second)
		q.after(5*time.Second, "named", "named")
		settle(q, other, quota.Units{"c": 0})
		q.after(5*time.Second, "named", "named", "one")
	})
}

// The ids of owners are apart in a hold, too, and a call has one id there whether others wait or
// not.
func TestIDsInAHold(t *testing.T) {
	inLine(t, "of owners, while others wait", func(q *queue) {
		h, err := q.l.Hold(q.t.Context(), charged("b=2"), 4)
		if err != nil {
			q.t.Fatal(err)
		}
		defer func() { _ = h.Close(q.t.Context()) }()
		defer q.wait("one", charged("b=5"), 24*time.Hour)()
		ctx, c := h.Context(q.t.Context()), charged("b=2")
		c.ID = "a"
		for _, owner := range []string{"etl", "report", "etl", "report"} {
			c.Owner = owner
			if _, err := q.l.Wait(ctx, c, time.Second); err != nil {
				q.t.Fatal(err)
			}
			if _, err := q.l.Reserve(ctx, c); err != nil {
				q.t.Fatal(err)
			}
		}
		if left := h.Left()["b"]; left != 4 {
			q.t.Errorf("%d of 8 units are left, want 4: two owners have used one id", left)
		}
	})
}

// A call that goes first after a block, and is refused for lack of units, asks with pauses.
func TestAProbeDoesNotWakeItself(t *testing.T) {
	inLine(t, "the first call after a block does not wake itself when it is refused", func(q *queue) {
		q.take("c=10")
		if err := q.l.BlockFor(q.t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "c"}, time.Second, "slow down"); err != nil {
			q.t.Fatal(err)
		}
		q.after(2 * time.Second)
		before := q.store.count()
		q.wait("one", quota.Call{Upstream: "api", Method: "guess"}, 24*time.Hour)
		q.after(time.Minute)
		if n := q.store.count() - before; n > 70 { // once a second, and a few times at first
			q.t.Errorf("it asked %d times in a minute", n)
		}
		q.after(2*time.Hour, "one")
	})
}
