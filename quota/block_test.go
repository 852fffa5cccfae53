package quota_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// A misread answer of an upstream must not shut a pool for ever.
func TestBlockIsNoLongerThanAYear(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	l, _ := newLedger(t)
	for _, err := range []error{
		l.Block(t.Context(), pool, noon.AddDate(500, 0, 0), "Retry-After: Fri, 31 Dec 2526 23:59:59 GMT"),
		l.BlockFor(t.Context(), pool, math.MaxInt64, "Retry-After: 99999999999999"),
	} {
		if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "a block may last 8784h at most") {
			t.Errorf("block: %v, want bad input", err)
		}
	}
	if _, err := l.Reserve(t.Context(), units(1)); err != nil {
		t.Error(err)
	}
	if err := l.Block(t.Context(), pool, noon.AddDate(1, 0, 0), "a year"); err != nil {
		t.Error(err)
	}
}

// Promise 12, as the ledger sees it.
func TestBlocksHeal(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	midnight := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) // in Los Angeles
	for _, test := range []struct {
		name  string
		now   time.Time
		block func(*quota.Ledger) error
		until time.Time
	}{
		{
			"a daily refusal blocks until the reset", noon,
			func(l *quota.Ledger) error { return l.BlockUntilReset(t.Context(), pool, "quotaExceeded") }, midnight,
		},
		{
			"within 15 minutes of the reset until their end only", midnight.Add(14 * time.Minute),
			func(l *quota.Ledger) error { return l.BlockUntilReset(t.Context(), pool, "quotaExceeded") }, midnight.Add(15 * time.Minute),
		},
		{
			"after them until the next reset", midnight.Add(15 * time.Minute),
			func(l *quota.Ledger) error { return l.BlockUntilReset(t.Context(), pool, "quotaExceeded") }, midnight.Add(24 * time.Hour),
		},
		{
			"a Retry-After blocks for its duration", noon,
			func(l *quota.Ledger) error { return l.BlockFor(t.Context(), pool, time.Minute, "slow down") }, noon.Add(time.Minute),
		},
		{
			"a named time", noon,
			func(l *quota.Ledger) error { return l.Block(t.Context(), pool, noon.Add(time.Hour), "slow down") }, noon.Add(time.Hour),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, clock := newLedger(t)
			clock.Set(test.now)
			if err := test.block(l); err != nil {
				t.Fatal(err)
			}
			_, err := l.Reserve(t.Context(), units(1))
			var refused *quota.RefusedError
			if !errors.As(err, &refused) || !errors.Is(err, quota.ErrBlocked) || !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
			if !refused.RetryAt.Equal(test.until) || refused.Reason == "" {
				t.Errorf("blocked until %s (%s), want %s", refused.RetryAt, refused.Reason, test.until)
			}
			clock.Set(test.until.Add(-time.Microsecond))
			if _, err := l.Reserve(t.Context(), units(1)); !errors.Is(err, quota.ErrBlocked) {
				t.Error("opened early:", err)
			}
			clock.Set(test.until)
			must(t, l, units(1))
		})
	}
	for _, test := range []struct {
		name, windows string
		now, until    time.Time
	}{
		{"of a day and a month, the day", "{per: month}, {per: day}", noon, noon.Add(4 * time.Hour)},
		{"of a minute and a day, the day", "{per: day}, {per: minute}", noon, noon.Add(4 * time.Hour)},
		{"of a month and a week, the week", "{per: month}, {per: week}", noon, noon.Add(52 * time.Hour)},
		{"of a minute and an hour, the hour", "{per: minute}, {per: hour}", noon.Add(20 * time.Minute), noon.Add(time.Hour)},
		{"a month where there is nothing else", "{per: month}, {per: 24h}", noon, time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{"the first 15 minutes of a month are those of a day", "{per: month}, {per: day}", time.Date(2026, 12, 1, 0, 14, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 15, 0, 0, time.UTC)},
		{"the first 15 minutes of an hour", "{per: minute}, {per: hour}", noon.Add(14 * time.Minute), noon.Add(15 * time.Minute)},
	} {
		t.Run("a refusal that names no time means, "+test.name, func(t *testing.T) {
			clock := quota.NewSimClock(test.now)
			text := "revision: 1\nupstreams: {api: {pools: {units: {quota: 100, windows: [" + test.windows + "]}}, methods: {get: 1}}}\n"
			l, err := quota.New(mustParse(t, text), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.BlockUntilReset(t.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "units"}, "quotaExceeded"); err != nil {
				t.Fatal(err)
			}
			_, err = l.Reserve(t.Context(), quota.Call{Method: "get"})
			var refused *quota.RefusedError
			if !errors.As(err, &refused) || !refused.RetryAt.Equal(test.until) {
				t.Errorf("%v, want until %s", err, test.until)
			}
		})
	}
	t.Run("a person can open it", func(t *testing.T) {
		l, _ := newLedger(t)
		if err := l.BlockUntilReset(t.Context(), pool, "quotaExceeded"); err != nil {
			t.Fatal(err)
		}
		if err := l.Admin().Unblock(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		must(t, l, units(1))
	})
	t.Run("a pool without a calendar opens after an hour", func(t *testing.T) {
		l, clock := newLedger(t)
		core := quota.Pool{Upstream: "github", Account: "default", Name: "core"}
		if err := l.BlockUntilReset(t.Context(), core, "rate limited"); err != nil {
			t.Fatal(err)
		}
		call := quota.Call{Upstream: "github", Method: "get"}
		if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrBlocked) {
			t.Error(err)
		}
		clock.Advance(time.Hour)
		must(t, l, call)
	})
	t.Run("bad input", func(t *testing.T) {
		l, _ := newLedger(t)
		nowhere := quota.Pool{Upstream: "youtube", Account: "default", Name: "nowhere"}
		if err := l.Block(t.Context(), nowhere, midnight, ""); !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
		if err := l.Block(t.Context(), pool, time.Time{}, ""); !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
		if err := l.BlockFor(t.Context(), pool, time.Minute, "bell \a"); !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
	})
}
