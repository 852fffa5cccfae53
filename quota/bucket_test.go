package quota_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// shop makes a ledger of an upstream with one pool, as the price book writes it.
func shop(t *testing.T, pool string, cost int64) (*quota.Ledger, *quota.SimClock) {
	t.Helper()
	clock := quota.NewSimClock(noon)
	costs := mustParse(t, fmt.Sprintf("revision: 1\nupstreams: {shop: {classes: {backfill: {keep_free: 30%%}}, pools: {points: %s}, methods: {get: %d}}}", pool, cost))
	l, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l, clock
}

// A program that always wants more gets nine tenths of a bucket's rate at least. An
// upstream whose bucket counts the same way refuses none of its calls, though it counts
// what they really cost and the ledger had to guess.
func TestBucketPoolSustainsItsRate(t *testing.T) {
	for _, guess := range []struct {
		name  string
		exact bool
	}{{"exact", true}, {"too_much", false}} {
		t.Run(guess.name, func(t *testing.T) {
			const rate, burst, seconds = 50, 1000, 200
			l, clock := shop(t, "{windows: [{algorithm: bucket, quota: 50, per: 1s, burst: 1000}]}", 1)
			rng := rand.New(rand.NewPCG(1, 2))
			tokens, last := float64(burst), clock.Now() // of the upstream
			var spent int64
			for end := clock.Now().Add(seconds * time.Second); clock.Now().Before(end); {
				actual := 1 + rng.Int64N(9)
				estimate := actual
				if !guess.exact {
					estimate = 10
				}
				r, err := l.Reserve(t.Context(), quota.Call{Upstream: "shop", Charges: map[string]int64{"points": estimate}})
				var refused *quota.RefusedError
				switch {
				case errors.As(err, &refused):
					if refused.RetryAfter <= 0 {
						t.Fatal(err)
					}
					clock.Advance(refused.RetryAfter)
					continue
				case err != nil:
					t.Fatal(err)
				}
				tokens = min(tokens+rate*clock.Now().Sub(last).Seconds(), burst)
				if last = clock.Now(); tokens < float64(actual)-1e-6 {
					t.Fatalf("the upstream refuses %d points, it has %f", actual, tokens)
				}
				tokens -= float64(actual)
				spent += actual
				clock.Advance(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
				if _, err := r.Settle(t.Context(), quota.Units{"points": actual}); err != nil {
					t.Fatal(err)
				}
			}
			if least := int64(burst + rate*seconds*9/10); spent < least {
				t.Errorf("%d points were spent in %ds, want %d", spent, seconds, least)
			}
		})
	}
}

func TestBucketPool(t *testing.T) {
	t.Run("headroom and class are taken off the burst", func(t *testing.T) {
		l, _ := shop(t, "{quota: 50, headroom: 100, windows: [{algorithm: bucket, per: 1s, burst: 1000}]}", 1)
		for class, want := range map[string]string{"": "900", "backfill": "630"} {
			_, err := l.Reserve(t.Context(), quota.Call{Upstream: "shop", Class: class, Charges: map[string]int64{"points": 901}})
			if !errors.Is(err, quota.ErrImpossible) || !strings.Contains(err.Error(), want) {
				t.Errorf("901 points for %q: %v, want impossible above %s", class, err, want)
			}
		}
	})
	t.Run("it holds its quota without a burst", func(t *testing.T) {
		l, _ := shop(t, "{quota: 50, windows: [{algorithm: bucket, per: 1s}]}", 50)
		r, err := l.Reserve(t.Context(), quota.Call{Method: "get"})
		if err != nil || r.Limit != 50 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("it cannot be held", func(t *testing.T) {
		l, _ := shop(t, "{windows: [{algorithm: bucket, quota: 50, per: 1m, burst: 1000}]}", 1)
		_, err := l.Hold(t.Context(), quota.Call{Method: "get"}, 4)
		if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "its window of 50 per 1m bucket drains what is held before it is sent") {
			t.Error(err)
		}
	})
}

// Tokens of a day and micro-dollars need more than 32 bits.
func TestEnormousUnits(t *testing.T) {
	const most = 1<<53 - 1
	t.Run("all classes share a page", func(t *testing.T) {
		l, _ := shop(t, "{quota: 5000000000, windows: [{per: 24h}, {per: day}]}", 3_000_000_000)
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "get", Class: "backfill"}); err != nil { // its limit fits in 32 bits
			t.Fatal(err)
		}
		v, err := l.Reserve(t.Context(), quota.Call{Upstream: "shop", Charges: map[string]int64{"points": 2_000_000_000}})
		if err != nil || v.Used != 5_000_000_000 || v.Remaining != 0 {
			t.Errorf("%+v, %v", v.Verdict, err)
		}
		if _, err := l.Reserve(t.Context(), quota.Call{Upstream: "shop", Charges: map[string]int64{"points": 1}}); !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
	t.Run("a hold multiplies without wrapping", func(t *testing.T) {
		l, _ := shop(t, "{quota: 9007199254740991, windows: [{per: 24h}]}", 1<<40)
		for n, want := range map[int]string{
			8191:    "",
			8192:    "hold shop/points: 8192 calls of 1099511627776 units are more than 9007199254740991 in all",
			1 << 24: "hold shop/points: 16777216 calls of 1099511627776 units are more than", // 2^64
		} {
			h, err := l.Hold(t.Context(), quota.Call{Method: "get"}, n)
			switch {
			case want == "" && err != nil, want != "" && (!errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), want)):
				t.Errorf("%d calls: %v, want %q", n, err, want)
			case want == "":
				if left := h.Left()["points"]; left != 8191<<40 {
					t.Errorf("%d are left", left)
				}
				if err := h.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	t.Run("to the last unit", func(t *testing.T) {
		l, _ := shop(t, "{quota: 9007199254740991, windows: [{per: 24h}, {per: day}, {per: 1h, algorithm: log}]}", most)
		r, err := l.Reserve(t.Context(), quota.Call{Method: "get"})
		if err != nil || r.Used != most {
			t.Fatalf("%+v, %v", r, err)
		}
		if s, err := r.Settle(t.Context(), quota.Units{"points": 1}); err != nil || s.Back != 0 {
			t.Errorf("a full window has lost count: %+v, %v", s, err)
		}
		pool := quota.Pool{Upstream: "shop", Name: "points"}
		if n, err := l.Admin().Adjust(t.Context(), pool, most, "more than there can be"); err != nil || n != most {
			t.Errorf("%d, %v", n, err)
		}
		usage, err := l.View().Usage(t.Context(), "shop", "")
		if err != nil || usage[0].Allowances[0].Used != most || usage[0].Allowances[0].Remaining != 0 {
			t.Errorf("%+v, %v", usage, err)
		}
	})
}
