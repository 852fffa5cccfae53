package quota_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Processes whose calls wait for a budget in money, or for the rate of one of its steps, may spend as much, however many
// callers they have, and whatever their calls cost.
func TestBudgetsAreSpentInTurn(t *testing.T) {
	for name, budget := range map[string]string{
		"a step":         "{quota: 1000 USD, windows: [{per: month}], of: api, then: [{at: 1%, slow: 6 USD, per: 1m}]}",
		"a short window": "{quota: 6 USD, windows: [{per: 1m}], of: api}",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustParse(t, `
revision: 1
budgets: {all: `+budget+`}
upstreams:
  api:
    pools: {calls: {quota: 100000, windows: [{per: 1m}]}}
    methods: {cheap: {pool: calls, cost: 1, bill: 0.01 USD}, dear: {pool: calls, cost: 1, bill: 0.05 USD}}
`)
				store := memstore.New(nil)
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var mu sync.Mutex
				processes := []struct {
					method  string
					callers int
					spent   float64 // cents
				}{{"cheap", 1, 0}, {"cheap", 20, 0}, {"cheap", 20, 0}, {"dear", 20, 0}}
				var one *quota.Ledger
				for i := range processes {
					p := &processes[i]
					l, err := quota.New(b, store, nil)
					if err != nil {
						t.Fatal(err)
					}
					one = l
					for range p.callers {
						all.Go(func() {
							for {
								if _, err := l.Wait(ctx, quota.Call{Method: p.method}, time.Hour); err != nil {
									if ctx.Err() == nil {
										t.Error(err)
									}
									return
								}
								mu.Lock()
								p.spent += map[string]float64{"cheap": 1, "dear": 5}[p.method]
								mu.Unlock()
								time.Sleep(100 * time.Millisecond)
							}
						})
					}
				}
				repeated := quota.Call{ID: "again", Job: "repeats", Method: "dear"}
				if _, err := one.Wait(t.Context(), repeated, time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Minute)
				mu.Lock()
				for i := range processes { // what was spent before anybody waited stays spent
					processes[i].spent = 0
				}
				mu.Unlock()
				time.Sleep(5 * time.Minute)
				var held error
				for i := 0; i < 40 && held == nil; i++ { // its flow is ahead at the latest after 20 of them
					_, held = one.Reserve(t.Context(), quota.Call{Job: "repeats", Method: "dear"})
				}
				if r, err := one.Reserve(t.Context(), repeated); !errors.Is(held, quota.ErrRefused) || err != nil {
					t.Errorf("a repeat while its job is refused (%v): %+v %v", held, r, err)
				}
				stop()
				all.Wait()
				sum, least := 0.0, math.Inf(1)
				for _, p := range processes {
					sum, least = sum+p.spent, min(least, p.spent)
				}
				if poorest := least * 4 / sum; poorest < 0.9 || sum < 0.95*3000 || sum > 3600 {
					t.Errorf("%+v: the poorest has %.2f of its share, and all have spent %.0f of 3000 cents", processes, poorest, sum)
				}
			})
		})
	}
}
