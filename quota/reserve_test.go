package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
)

func TestReserve(t *testing.T) {
	t.Run("a granted verdict has every field", func(t *testing.T) {
		l, _ := newLedger(t)
		r, err := l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "videos.list", ID: "one"})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Verdict
		if got.Token().ID != "one" || got.Nonce == [16]byte{} {
			t.Errorf("token %v", got.Token())
		}
		got.Nonce = [16]byte{}
		want := quota.Verdict{
			Allowed: true, ID: "one", Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "units"},
			Window: "10m", Units: 1, Used: 1, Limit: 60, Remaining: 59, At: noon, ResetAt: noon.Add(10*time.Minute + time.Second),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a refusal names pool, window and time, and costs nothing", func(t *testing.T) {
		l, _ := newLedger(t)
		must(t, l, units(60))
		_, err := l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "search.list"})
		var refused *quota.RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, quota.ErrRefused) || errors.Is(err, quota.ErrBlocked) {
			t.Fatal(err)
		}
		want := "reserve youtube/units: refused: 60 of 60 units used in 10m, 20 asked for; retry after 10m1s at 2026-11-20T20:10:01Z"
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
		if refused.RetryAfter != 601*time.Second || refused.Remaining != 0 || refused.Used != 60 || refused.Allowed {
			t.Errorf("%+v", refused.Verdict)
		}
		if n := used(t, l, "searches", "1h log"); n != 0 {
			t.Errorf("%d searches were charged by a call that was refused for units", n)
		}
	})
	t.Run("a method charges several pools at once", func(t *testing.T) {
		l, _ := newLedger(t)
		r, err := l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "search.list"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(quota.Units{"units": 20, "searches": 1}, r.Charges()); diff != "" {
			t.Error(diff)
		}
		if u, s := used(t, l, "units", "24h"), used(t, l, "searches", "1h log"); u != 20 || s != 1 {
			t.Errorf("used %d units and %d searches", u, s)
		}
	})
	t.Run("accounts never share a pool", func(t *testing.T) {
		l, _ := newLedger(t)
		must(t, l, units(60))
		r, err := l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Account: "staging", Charges: map[string]int64{"units": 60}})
		if err != nil || r.Used != 60 || r.Pool.String() != "youtube@staging/units" {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("what costs nothing passes a full pool but not a block", func(t *testing.T) {
		l, _ := newLedger(t)
		must(t, l, units(60))
		free := quota.Call{Upstream: "youtube", Method: "free.call"}
		must(t, l, free)
		pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
		if err := l.BlockFor(t.Context(), pool, time.Minute, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(t.Context(), free); !errors.Is(err, quota.ErrBlocked) {
			t.Error(err)
		}
	})
	t.Run("an unpriced method of an upstream that admits them passes uncharged", func(t *testing.T) {
		l, _ := newLedger(t)
		r, err := l.Reserve(t.Context(), quota.Call{Upstream: "github", Method: "rate_limit"})
		if err != nil || !r.Allowed || len(r.Charges()) != 0 {
			t.Fatal(r, err)
		}
		if _, err := r.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Promise 5, as the ledger sees it: before the store is asked.
func TestImpossibleIsNotThrottled(t *testing.T) {
	l, _ := newLedger(t)
	for _, test := range []struct {
		class string
		units int64
		want  string
	}{
		{"", 61, "reserve youtube/units: impossible: 61 units asked for, the limit of 10m is 60\nAsk for less, or raise the quota in costs.yaml"},
		{"", 91, "reserve youtube/units: impossible: 91 units asked for, the limit of 24h is 90\nAsk for less, or raise the quota in costs.yaml"},
		{"backfill", 43, "reserve youtube/units: impossible: 43 units asked for, the limit of 10m is 42 for class backfill\nAsk for less, or lower keep_free of the class in costs.yaml"},
		{"backfill", 61, "reserve youtube/units: impossible: 61 units asked for, the limit of 10m is 42 for class backfill\nAsk for less, or raise the quota in costs.yaml"},
		{"manual", 101, "reserve youtube/units: impossible: 101 units asked for, the limit of 24h is 100 for class manual\nAsk for less, or raise the quota in costs.yaml"},
		{"careful", 95, "reserve youtube/units: impossible: 95 units asked for, the limit of 24h is 75 for class careful\nAsk for less, or raise the quota in costs.yaml"},
	} {
		c := units(test.units)
		c.Class = test.class
		_, err := l.Reserve(t.Context(), c)
		if !errors.Is(err, quota.ErrImpossible) || errors.Is(err, quota.ErrRefused) || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

func TestClasses(t *testing.T) {
	for _, test := range []struct {
		class string
		limit int64 // of the 24h window: quota 100, headroom 10
	}{
		{"", 90},
		{"backfill", 63}, // 30% of 90, rounded up, stay free
		{"careful", 75},
		{"manual", 100},
	} {
		t.Run("class "+test.class, func(t *testing.T) {
			l, clock := newLedger(t)
			c := units(1)
			c.Class = test.class
			var granted int64
			for range 12 { // past the guard of 10 minutes, and within the day
				for {
					_, err := l.Reserve(t.Context(), c)
					if err != nil {
						break
					}
					granted++
				}
				clock.Advance(11 * time.Minute)
			}
			if granted != test.limit {
				t.Errorf("granted %d, want %d", granted, test.limit)
			}
		})
	}
}
