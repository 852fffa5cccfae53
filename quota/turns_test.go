package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const fairBook = `
revision: 1
upstreams:
  api:
    pools: {units: {quota: 60000, windows: [{per: 1m, precision: 1s}]}}
    methods:
      get: {pool: units, cost: 300}
      heavy: {pool: units, cost: 6000}
      answer: {pool: units, cost: {estimate: {body: max_tokens, default: 600}, actual: {body: usage}}}
`

// flow is how one process uses the pool.
type flow struct {
	method  string
	callers int
	loops   bool // it does not wait, and asks again each 10 ms
	units   float64
	longest time.Duration // that a call has waited
}

// jain is Jain's index of fairness: 1 if all have had as much.
func jain(flows []*flow) float64 {
	sum, squares := 0.0, 0.0
	for _, f := range flows {
		sum, squares = sum+f.units, squares+f.units*f.units
	}
	return sum * sum / float64(len(flows)) / squares
}

// use lets the flows of a process each use one pool for a time.
func use(t *testing.T, flows []*flow, length time.Duration) {
	b, err := book.Parse("costs.yaml", []byte(fairBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(nil)
	begun := time.Now()
	end := begun.Add(length)
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, f := range flows {
		l, err := quota.New(b, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range max(f.callers, 1) {
			all.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					c := quota.Call{Upstream: "api", Method: f.method}
					var r *quota.Reservation
					var err error
					if f.loops {
						for r, err = l.Reserve(t.Context(), c); errors.Is(err, quota.ErrRefused) && time.Now().Before(end); r, err = l.Reserve(t.Context(), c) {
							time.Sleep(10 * time.Millisecond)
						}
					} else {
						r, err = l.Wait(t.Context(), c, time.Until(end))
					}
					if errors.Is(err, quota.ErrRefused) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					units := r.Charges()["units"]
					mu.Lock()
					f.longest = max(f.longest, time.Since(began))
					mu.Unlock()
					time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
					if f.method == "answer" {
						units = 100 + rand.Int64N(500)
						if _, err = r.Settle(context.WithoutCancel(t.Context()), quota.Units{"units": units}); err != nil {
							t.Error(err)
						}
					}
					mu.Lock()
					if time.Now().After(begun.Add(time.Minute)) { // what was taken before stays taken
						f.units += float64(units)
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
}

func TestTurns(t *testing.T) {
	for name, flows := range map[string][]flow{
		"fixed":       {{method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4}},
		"settled":     {{method: "answer", callers: 4}, {method: "answer", callers: 4}, {method: "answer", callers: 4}, {method: "answer", callers: 4}},
		"heavy":       {{method: "heavy"}, {method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4}},
		"heavyanswer": {{method: "heavy"}, {method: "answer", callers: 4}, {method: "answer", callers: 4}, {method: "answer", callers: 4}},
		"many":        {{method: "get"}, {method: "get", callers: 20}, {method: "get", callers: 4}, {method: "get", callers: 4}},
		"loops":       {{method: "get", callers: 4, loops: true}, {method: "get", callers: 4}, {method: "get", callers: 4}, {method: "get", callers: 4, loops: true}},
		"heavyloops":  {{method: "heavy"}, {method: "get", callers: 4, loops: true}, {method: "get", callers: 4}, {method: "get", callers: 4, loops: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []*flow
				for _, f := range flows {
					all = append(all, &f)
				}
				use(t, all, 5*time.Minute)
				fmt.Printf("%-12s jain %.3f", name, jain(all))
				sum := 0.0
				for _, f := range all {
					sum += f.units
					fmt.Printf(" %.0f(%s)", f.units, f.longest)
				}
				fmt.Printf(" total %.3f\n", sum/60000/4)
			})
		})
	}
}
