package quota_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Two flows that always wait for the units of a short window have their parts too, in one process and in two.
func TestTurnsOfShortWindows(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b quota.Call
		want float64 // of a
		used float64 // of the limit, at least
	}{
		{"classes", quota.Call{Method: "light", Class: "hi"}, quota.Call{Method: "light", Class: "lo"}, 0.8, 0.88},
		{"classes of heavy and light calls", quota.Call{Method: "light", Class: "hi"}, quota.Call{Method: "heavy", Class: "lo"}, 0.8, 0.88},
		{"jobs of light and heavy calls", quota.Call{Method: "light", Job: "a"}, quota.Call{Method: "heavy", Job: "b"}, 0.5, 0.88},
		{"a class that keeps units free", quota.Call{Method: "light", Class: "hi"}, quota.Call{Method: "light", Class: "kind"}, 0.8, 0.63},
	} {
		for _, per := range []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second} {
			for processes := range 2 {
				t.Run(fmt.Sprint(test.name, ", ", per, ", ", processes+1), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := mustParse(t, fmt.Sprintf(`
revision: 1
upstreams:
  api:
    classes: {hi: {priority: 5}, lo: {share: 20%%}, kind: {share: 20%%, keep_free: 30%%}}
    pools: {units: {quota: %d, windows: [{per: %s}]}}
    methods: {light: 1, heavy: 8}
`, int(80*per.Seconds()), per))
						store := memstore.New(nil)
						one, err := quota.New(b, store, nil)
						if err != nil {
							t.Fatal(err)
						}
						other := one
						if processes > 0 {
							if other, err = quota.New(b, store, nil); err != nil {
								t.Fatal(err)
							}
						}
						warm, end := time.Now().Add(max(10*time.Second, 2*per)), time.Now().Add(2*time.Minute)
						var took [2]atomic.Int64
						var calls sync.WaitGroup
						for i, c := range []quota.Call{test.a, test.b} {
							l := []*quota.Ledger{one, other}[i]
							for range 4 {
								calls.Go(func() {
									for time.Now().Before(end) {
										if r, err := l.Wait(t.Context(), c, 20*time.Second); err != nil {
											t.Error(err)
										} else if time.Now().After(warm) {
											took[i].Add(r.Charges()["units"])
										}
									}
								})
							}
						}
						calls.Wait()
						first, second := float64(took[0].Load()), float64(took[1].Load())
						if used := (first + second) / 80 / time.Since(warm).Seconds(); used < test.used {
							t.Errorf("%.3f of the limit is used, want %.2f", used, test.used)
						}
						if part := first / (first + second); math.Abs(part-test.want) > 0.04 {
							t.Errorf("the first has %.3f of the units, want %.2f", part, test.want)
						}
					})
				})
			}
		}
	}
}

// A class that keeps units of a calendar's day free leaves them to others, also while it waits for the next day. Then it
// has its turn.
func TestAClassThatWaitsKeepsTheDayFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    classes: {hi: {priority: 5}, lo: {share: 20%, keep_free: 30%}}
    pools: {units: {quota: 1000, windows: [{per: day, zone: UTC}]}}
    methods: {get: 1}
`), memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		hi, lo := quota.Call{Method: "get", Class: "hi"}, quota.Call{Method: "get", Class: "lo"}
		for range 700 {
			must(t, l, hi)
		}
		began, done := time.Now(), make(chan error)
		go func() {
			_, err := l.Wait(t.Context(), lo, 48*time.Hour)
			done <- err
		}()
		synctest.Wait()
		for range 300 {
			if _, err := l.Wait(t.Context(), hi, time.Minute); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := <-done; err != nil || time.Since(began) > 24*time.Hour+2*time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
