package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

func TestWaitInLine(t *testing.T) {
	const long = 24 * time.Hour
	inLine(t, "first come, first served, at two questions for each grant at most", func(q *queue) {
		const waiters = 200
		for range waiters {
			q.take("a=1")
			time.Sleep(time.Second)
		}
		before, names := q.store.count(), make([]string, waiters)
		for i := range names {
			names[i] = fmt.Sprint(i)
			q.wait(names[i], charged("a=1"), long)
		}
		q.after(2*time.Hour, names...)
		if n := q.store.count() - before; n > 2*waiters {
			q.t.Errorf("%d waiters asked %d times", waiters, n)
		}
	})
	inLine(t, "a light call does not pass a heavy one", func(q *queue) {
		q.take("b=6")
		q.wait("heavy", charged("b=5"), long)
		q.wait("light", charged("b=1"), long)
		q.after(30 * time.Minute)
		q.after(2*time.Hour, "heavy", "light")
	})
	inLine(t, "calls of other pools, other members and no units pass", func(q *queue) {
		q.take("b=10")
		q.take("a=200")
		q.wait("b", charged("b=1"), long)
		q.wait("c", charged("c=1"), long)
		q.wait("a", charged("a=1"), long)
		q.wait("free", quota.Call{Upstream: "api", Method: "free"}, long)
		q.wait("k1", quota.Call{Family: "client", Key: "1"}, long)
		q.wait("k1 again", quota.Call{Family: "client", Key: "1"}, long)
		q.wait("k2", quota.Call{Family: "client", Key: "2"}, long)
		q.after(time.Minute, "c", "free", "k1", "k2")
		q.pass(2 * time.Hour)
		slices.Sort(q.done[4:]) // each pool has its jitter
		q.after(0, "c", "free", "k1", "k2", "a", "b", "k1 again")
	})
	inLine(t, "a call of several pools stands in the line of each", func(q *queue) {
		q.take("b=10")
		time.Sleep(time.Minute)
		q.take("c=10")
		q.wait("b", charged("b=1"), long)
		q.wait("b and c", charged("b=1 c=1"), long)
		q.wait("c", charged("c=1"), long)
		q.wait("c and b", charged("c=1 b=1"), long)
		q.after(time.Hour+50*time.Second, "b")
		q.after(2*time.Hour, "b", "b and c", "c", "c and b")
	})
	inLine(t, "who gives up leaves at once and holds up nobody", func(q *queue) {
		q.take("b=10")
		first := q.wait("first", charged("b=10"), long)
		second := q.wait("second", charged("b=10"), long)
		q.wait("third", charged("b=1"), long)
		second()
		q.after(time.Minute, "second left")
		first()
		q.after(2*time.Minute, "second left", "first left")
		q.after(2*time.Hour, "second left", "first left", "third")
	})
	inLine(t, "when the first gives up, the next is asked for", func(q *queue) {
		q.take("b=6")
		heavy := q.wait("heavy", charged("b=5"), long)
		q.wait("light", charged("b=1"), long)
		heavy()
		q.after(time.Second, "heavy left", "light")
	})
	inLine(t, "who cannot be served in time is refused at once, and holds up nobody", func(q *queue) {
		q.take("b=10")
		q.wait("first", charged("b=1"), 30*time.Minute)
		q.wait("second", charged("b=1"), long)
		asked := q.store.count()
		q.wait("third", charged("b=1"), 30*time.Minute)
		q.wait("fourth", charged("b=1"), long)
		q.after(time.Second, "first!", "third!")
		if n := q.store.count() - asked; n != 0 {
			q.t.Errorf("asked %d times for those behind", n)
		}
		q.after(2*time.Hour, "first!", "third!", "second", "fourth")
	})
	inLine(t, "who waits behind learns when it is too late for it", func(q *queue) {
		q.take("b=5")
		time.Sleep(time.Minute)
		q.take("b=5")
		q.wait("first", charged("b=5"), long)
		q.wait("second", charged("b=5"), long)
		q.wait("third", charged("b=1"), long)
		q.wait("fourth", charged("b=1"), time.Hour)
		q.after(time.Hour+10*time.Second, "first", "fourth!")
		q.after(3*time.Hour, "first", "fourth!", "second", "third")
	})
	inLine(t, "whose time runs out while others are served is not asked for", func(q *queue) {
		q.take("b=10")
		for i := range 4 {
			q.wait(fmt.Sprint(i), charged("b=1"), long)
		}
		q.wait("hasty", charged("b=1"), time.Hour+15*time.Second)
		q.store.fail(0, 10*time.Second)
		q.after(time.Hour+25*time.Second, "0", "1", "hasty!")
		q.after(2*time.Hour, "0", "1", "hasty!", "2", "3")
	})
	inLine(t, "that reaches to lines where somebody waits for another line", func(q *queue) {
		q.take("b=10")
		q.wait("b", charged("b=1"), long)
		both := q.wait("b and c", charged("b=1 c=1"), long)
		q.wait("hasty", charged("c=1"), time.Minute)
		q.after(time.Second, "hasty!")
		both()
		q.wait("c", charged("c=1"), time.Minute)
		q.after(2*time.Second, "hasty!", "b and c left", "c")
		q.after(2*time.Hour, "hasty!", "b and c left", "c", "b")
	})
	inLine(t, "who came first but was answered last takes its place in line", func(q *queue) {
		for range 10 {
			q.take("b=1")
			time.Sleep(time.Minute)
		}
		q.store.fail(0, 5*time.Second)
		q.wait("slow", charged("b=1"), long)
		q.store.fail(0, 0)
		q.wait("first", charged("b=1"), long)
		q.wait("last", charged("b=1"), long)
		q.after(62*time.Minute+30*time.Second, "first", "slow", "last")
	})
	inLine(t, "a call of no units waits for the end of a block only", func(q *queue) {
		q.take("a=200")
		q.wait("a", charged("a=1"), long)
		if err := q.l.BlockFor(q.t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "a"}, time.Minute, "503"); err != nil {
			q.t.Fatal(err)
		}
		q.wait("free", quota.Call{Upstream: "api", Method: "free"}, long)
		q.after(2*time.Minute, "free")
		q.after(2*time.Hour, "free", "a")
	})
	inLine(t, "an outage lets all ask, not one after the other", func(q *queue) {
		q.take("b=10")
		for i := range 5 {
			q.wait(fmt.Sprint(i), charged("b=1"), long)
		}
		q.store.fail(5, 5*time.Second)
		q.after(time.Hour + 4*time.Second) // the first asks within the last seconds
		q.pass(9 * time.Second)
		slices.Sort(q.done)
		q.after(0, "0 failed", "1 failed", "2 failed", "3 failed", "4 failed")
	})
	inLine(t, "after an outage they stand in line again", func(q *queue) {
		const waiters = 20
		for range 10 {
			q.take("b=1")
			time.Sleep(time.Minute)
		}
		for i := range waiters {
			q.wait(fmt.Sprint(i), charged("b=1"), long)
		}
		q.store.fail(1, 0)
		asked := q.store.count()
		q.pass(10 * time.Hour)
		if n := q.store.count() - asked; len(q.done) != waiters || n > waiters+2*waiters {
			q.t.Errorf("%d of %d done, asked %d times", len(q.done), waiters, n)
		}
	})
	inLine(t, "reserving does not stand in line", func(q *queue) {
		q.take("b=6")
		q.wait("heavy", charged("b=5"), long)
		q.take("b=1")
		q.after(3*time.Hour, "heavy")
	})
	inLine(t, "calls that draw from a hold do not stand in line", func(q *queue) {
		h, err := q.l.Hold(q.t.Context(), charged("b=1"), 2)
		if err != nil {
			q.t.Fatal(err)
		}
		q.take("b=8")
		cancel := q.wait("heavy", charged("b=5"), long)
		if _, err := q.l.Wait(h.Context(q.t.Context()), charged("b=1"), time.Second); err != nil {
			q.t.Error(err)
		}
		if n := h.Left()["b"]; n != 1 {
			q.t.Errorf("%d left", n)
		}
		cancel()
	})
}

// A caller that is refused because earlier calls wait learns when to retry. The ledger
// does not ask the store for it.
func TestRefusedInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []quota.Event
		l, err := quota.New(mustParse(t, lineBook), memstore.New(nil), &quota.Options{
			Observer: quota.ObserverFunc(func(e quota.Event) { events = append(events, e) }),
		})
		if err != nil {
			t.Fatal(err)
		}
		must(t, l, charged("b=10"))
		ctx, cancel := context.WithCancel(t.Context())
		go l.Wait(ctx, charged("b=3"), 2*time.Hour) // it is cancelled
		synctest.Wait()
		_, err = l.Wait(t.Context(), charged("b=2"), time.Minute)
		var refused *quota.RefusedError
		if !errors.As(err, &refused) || errors.Is(err, quota.ErrBlocked) {
			t.Fatal(err)
		}
		v := refused.Verdict
		if v.Pool.Name != "b" || v.Window != "1h log" || v.Units != 2 || v.Used != 10 || v.Limit != 10 ||
			v.RetryAfter < time.Hour || v.RetryAfter > time.Hour+3*time.Second || !v.RetryAt.Equal(v.At.Add(v.RetryAfter)) {
			t.Errorf("%+v", v)
		}
		if want := "reserve api/b: refused: 1 call that came before it waits; retry after 1h"; !strings.HasPrefix(err.Error(), want) || v.Place != 2 {
			t.Errorf("%v\nwant %s", err, want)
		}
		if last := events[len(events)-1]; last.Kind != quota.EventRefused || last.Pool != v.Pool {
			t.Errorf("observed %+v", last)
		}
		cancel()
		synctest.Wait()
	})
}

// Callers that share a pool are granted in the order in which they came, even if others
// give up meanwhile. In the end no caller is left, and the queue keeps nothing.
func TestWaitersOfManyPools(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			q := newQueue(t)
			q.take("a=200 b=10 c=10")
			const waiters = 100
			calls := make([]quota.Call, waiters)
			for i := range calls {
				c := map[string]int64{}
				for _, pool := range []string{"a", "b", "c"} {
					if rng.IntN(2) == 0 {
						c[pool] = 1 + rng.Int64N(4)
					}
				}
				if len(c) == 0 {
					c["a"] = 1
				}
				calls[i] = quota.Call{Upstream: "api", Charges: c}
				give := q.wait(fmt.Sprint(i), calls[i], time.Duration(rng.Int64N(int64(100*time.Hour))))
				if rng.IntN(3) == 0 {
					time.AfterFunc(time.Duration(rng.Int64N(int64(20*time.Hour))), give)
				}
			}
			q.pass(200 * time.Hour)
			if len(q.done) != waiters || q.l.Waiting() != 0 {
				t.Fatalf("seed %d: %d of %d are done, %d lines are left", seed, len(q.done), waiters, q.l.Waiting())
			}
			var granted []int
			for _, name := range q.done {
				var n int
				if _, err := fmt.Sscan(name, &n); err == nil && fmt.Sprint(n) == name {
					granted = append(granted, n)
				}
			}
			for i, late := range granted {
				for _, early := range granted[i+1:] {
					for pool := range calls[late].Charges {
						if _, common := calls[early].Charges[pool]; early < late && common {
							t.Errorf("seed %d: %d was granted after %d, and both charge %s", seed, early, late, pool)
						}
					}
				}
			}
			if len(granted) < waiters/4 {
				t.Errorf("seed %d: only %d granted", seed, len(granted))
			}
		})
	}
}
