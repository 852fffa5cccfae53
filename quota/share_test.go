package quota_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// enterFor has ten callers of each ledger make calls of a length, and returns how many each
// ledger made. The first ledger takes all slots before the second asks.
func (r *slotRig) enterFor(span, length time.Duration, ledgers ...*quota.Ledger) (calls []int, all int) {
	made := make([]atomic.Int64, len(ledgers))
	ctx, over := context.WithCancel(r.Context())
	var wg sync.WaitGroup
	for i, l := range ledgers {
		for range 10 {
			wg.Go(func() {
				for {
					got, err := l.Wait(ctx, r.enter, time.Hour)
					if err != nil {
						return
					}
					time.Sleep(length)
					r.done(got)
					made[i].Add(1)
				}
			})
		}
		synctest.Wait()
	}
	time.Sleep(span)
	over()
	wg.Wait()
	for i := range made {
		calls = append(calls, int(made[i].Load()))
		all += calls[i]
	}
	return calls, all
}

// Processes whose calls wait share the slots, and few slots are idle meanwhile. Who wakes first is by chance: the poorer
// of two has had 28 to 50 of 100.
func TestProcessesShareSlots(t *testing.T) {
	for _, length := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 3 * time.Second} {
		span := max(time.Minute, 400*length)
		most := 2 * int(span/length)
		t.Run(fmt.Sprintf("two, calls of %s", length), func(t *testing.T) {
			inBubble(t, func(r *slotRig) {
				if calls, all := r.enterFor(span, length, r.a, r.b); 4*min(calls[0], calls[1]) < all || 10*all < 8*most {
					t.Errorf("%v calls of at most %d", calls, most)
				}
			})
		})
		t.Run(fmt.Sprintf("one alone, calls of %s", length), func(t *testing.T) {
			inBubble(t, func(r *slotRig) {
				if calls, all := r.enterFor(span, length, r.a); 100*all < 95*most {
					t.Errorf("%v calls of at most %d", calls, most)
				}
			})
		})
	}
}
