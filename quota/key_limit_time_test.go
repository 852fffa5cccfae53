package quota_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// TestALimitArrivesWithin2s of its change by another process, however often this one calls,
// and whenever the change comes. The times are those of the test's own clock.
func TestALimitArrivesWithin2s(t *testing.T) {
	const within = 2 * time.Second
	for _, pause := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1400 * time.Millisecond, 2200 * time.Millisecond, time.Minute} {
		for after := time.Duration(0); after < within; after += 170 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeLimits()
				close(f.load)
				l := newLimitLedger(t, f)
				set := func(n int64) {
					if _, err := f.SetLimit(t.Context(), quota.KeyLimit{Family: "client", Key: "bob", Quota: n}); err != nil {
						t.Fatal(err)
					}
				}
				set(100_000)
				time.AfterFunc(10*time.Second+after, func() { set(200_000) })
				changed := time.Now().Add(10*time.Second + after)
				old := 0
				for now := time.Now(); now.Before(changed.Add(within + 2*pause)); now = time.Now() {
					r, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: "bob"})
					if err != nil {
						t.Fatal(err)
					}
					switch since := now.Sub(changed); {
					case since >= within && r.Limit != 200_000:
						t.Fatalf("a call each %s: %s after the change, the limit is %d", pause, since, r.Limit)
					case r.Limit == 100_000:
						old++
					}
					time.Sleep(pause)
				}
				if old == 0 {
					t.Errorf("a call each %s: none had the old limit, so this shows nothing", pause)
				}
			})
		}
	}
}
