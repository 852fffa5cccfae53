package window_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/headroom-quota/headroom/quota/window"
)

// A caller that always wants more gets at least nine tenths of the quota in the long
// run, whatever the length of the window; and never more than the quota in any window.
func TestEveryWindowSustainsItsQuotaByDefault(t *testing.T) {
	const quota, windows = 10, 20
	for _, per := range []time.Duration{
		time.Millisecond, 5 * time.Millisecond, 9 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 2 * time.Second, 7 * time.Second,
		9999 * time.Millisecond, 30 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour,
	} {
		t.Run(fmt.Sprint(per), func(t *testing.T) {
			spec, err := Spec{Per: per}.Normal()
			if err != nil {
				t.Fatal(err)
			}
			if n := per / spec.Precision; n > 1440 {
				t.Errorf("a page has %d buckets by default, want 1440 at most", n)
			}
			if spec.Yield() < MinYield {
				t.Errorf("the yield is %.3f", spec.Yield())
			}
			granted := saturate(spec, quota, windows)
			if want := quota * windows * 9 / 10; len(granted) < want {
				t.Errorf("%d units were granted in %d windows, want %d at least", len(granted), windows, want)
			}
			for i := quota; i < len(granted); i++ {
				if gap := granted[i].Sub(granted[i-quota]); gap < per {
					t.Fatalf("%d units were granted in %s", quota+1, gap)
				}
			}
		})
	}
}

// A caller that always wants more gets the whole rate of a bucket, and an upstream whose
// bucket counts the same way refuses none of its calls.
func TestBucketSustainsItsRate(t *testing.T) {
	for _, c := range []struct {
		spec  Spec
		burst int64
	}{
		{Spec{Per: time.Second, Algorithm: Leaky, Rate: 50}, 1000},
		{Spec{Per: time.Second, Algorithm: Leaky, Rate: 2}, 40},
		{Spec{Per: time.Minute, Algorithm: Leaky, Rate: 7}, 7},
		{Spec{Per: 5 * time.Millisecond, Algorithm: Leaky, Rate: 3}, 1},
	} {
		spec, err := c.spec.Normal()
		if err != nil {
			t.Fatal(err)
		}
		const windows = 100
		granted := saturate(spec, c.burst, windows)
		if want := int(c.spec.Rate) * windows * 9 / 10; len(granted)-int(c.burst) < want {
			t.Errorf("%s: %d units were granted in %d times %s, want the burst of %d and %d", spec, len(granted), windows, spec.Per, c.burst, want)
		}
		tokens, last := float64(c.burst), granted[0] // of the upstream
		for i, at := range granted {
			tokens = min(tokens+float64(at-last)*float64(spec.Rate)/float64(spec.Per.Microseconds()), float64(c.burst))
			if last = at; tokens < 1-1e-6 {
				t.Fatalf("%s: the upstream refuses call %d, it has %f tokens", spec, i, tokens)
			}
			tokens--
		}
	}
}

// saturate returns the instants of single units that a caller takes who waits for
// each no longer than it has to.
func saturate(s Spec, limit int64, windows int) (granted []Instant) {
	w := New(s)
	start := At(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)) + 357
	for now := start; now < start.Add(time.Duration(windows)*s.Per); {
		if w.Take(now, 1, limit) {
			granted = append(granted, now)
			continue
		}
		now = w.Free(now, 1, limit)
	}
	return granted
}

func TestYield(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want float64
	}{
		{Spec{Per: time.Millisecond}, 10. / 11},
		{Spec{Per: 9 * time.Millisecond, Precision: time.Millisecond}, 9. / 10},
		{Spec{Per: time.Second, Precision: time.Second}, 1. / 2},
		{Spec{Per: 24 * time.Hour}, 1440. / 1441},
		{Spec{Per: time.Minute, Late: 2500 * time.Millisecond}, 60. / 64},
		{Spec{Per: time.Second, Algorithm: Leaky, Rate: 5}, 1},
		{Spec{Per: time.Second, Algorithm: Exact}, 1},
		{Spec{Per: time.Second, Algorithm: Estimate}, 1},
		{Spec{Period: Minute}, 1},
	} {
		spec, err := c.spec.Normal()
		if err != nil || spec.Yield() != c.want {
			t.Errorf("%s: yield is %v (%v), want %v", spec, spec.Yield(), err, c.want)
		}
	}
}
