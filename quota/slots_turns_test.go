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
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Jobs of one process whose calls wait for slots get them in turn, however many callers they have. Another process has
// its share beside them.
func TestJobsTakeTurnsForSlots(t *testing.T) {
	for _, method := range []string{"enter", "ask"} {
		for _, other := range []int{0, 10} {
			t.Run(fmt.Sprintf("%s, another process with %d callers", method, other), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := mustParse(t, `
revision: 1
upstreams:
  api:
    pools:
      at_once: {windows: [{in_flight: 2, ttl: 1m}]}
      tokens:  {quota: 1000000, windows: [{per: 1h}]}
    methods:
      ask:   {charge: {at_once: 1, tokens: 10}}
      enter: {charge: {at_once: 1}}
`)
					store := memstore.New(nil)
					ctx, stop := context.WithCancel(t.Context())
					var all sync.WaitGroup
					run := func(l *quota.Ledger, job string, callers int, calls *atomic.Int64) {
						for range callers {
							all.Go(func() {
								for {
									r, err := l.Wait(ctx, quota.Call{Job: job, Method: method}, time.Hour)
									if err != nil {
										return
									}
									time.Sleep(100 * time.Millisecond)
									if err := r.Done(t.Context()); err != nil {
										t.Error(err)
									}
									calls.Add(1)
								}
							})
						}
						synctest.Wait()
					}
					ledger := func() *quota.Ledger {
						l, err := quota.New(b, store, nil)
						if err != nil {
							t.Fatal(err)
						}
						return l
					}
					one := ledger()
					var many, few, single, others atomic.Int64
					run(one, "many", 20, &many)
					run(one, "few", 3, &few)
					run(one, "single", 1, &single)
					run(ledger(), "other", other, &others)
					time.Sleep(time.Minute)
					stop()
					all.Wait()
					m, f, s, o := many.Load(), few.Load(), single.Load(), others.Load()
					if 10*m > 11*f || 10*f > 11*m || 2*s < f { // a single caller comes back after each call
						t.Errorf("%d calls of many callers, %d of few, %d of one", m, f, s)
					}
					if sum := m + f + s + o; sum < 1100 || other > 0 && 8*o < sum { // which process has the next slot is chance
						t.Errorf("%d calls of another process, %d of at most 1200 in all", o, sum)
					}
				})
			})
		}
	}
}
