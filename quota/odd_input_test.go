package quota_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// Odd, and yet it makes sense: it works like everything else.

const everyWindow = `
revision: 1
upstreams:
  api:
    pools:
      units:
        quota: 10
        windows: [{per: 24h}, {per: 1h, algorithm: log}, {per: 10m, algorithm: counter}, {per: day, zone: America/Los_Angeles}, {per: month}]
    methods: {get: 1}
`

func TestAnyTimeIsATime(t *testing.T) {
	pool := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
	take := func(n int64) quota.Call { return quota.Call{Charges: map[string]int64{"units": n}} }
	for at, day := range map[string]string{
		"0001-01-01T00:00:00Z":        "0000-12-31",
		"1752-09-10T12:00:00Z":        "1752-09-10",
		"1901-12-13T20:45:51Z":        "1901-12-13", // 32 bits of seconds begin
		"1969-12-31T23:59:59.999999Z": "1969-12-31",
		"1970-01-01T00:00:00Z":        "1969-12-31", // in Los Angeles
		"2038-01-19T03:14:08Z":        "2038-01-18", // and end
		"2100-02-28T23:59:59Z":        "2100-02-28", // not a leap year
		"2101-01-01T12:00:00Z":        "2101-01-01",
		"2262-04-11T23:47:17Z":        "2262-04-11", // 64 bits of nanoseconds end
		"9999-12-31T23:59:59Z":        "9999-12-31",
	} {
		t.Run(at, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				t.Fatal(err)
			}
			atHome(t, everyWindow, func(t *testing.T, l *quota.Ledger, clock *quota.SimClock) {
				clock.Set(now)
				seven := take(7)
				seven.ID = "a"
				r := must(t, l, seven)
				if again := must(t, l, seven); !again.Repeat || !r.At.Equal(now) {
					t.Errorf("repeat %t, at %s", again.Repeat, r.At)
				}
				if s, err := r.Settle(t.Context(), quota.Units{"units": 2}); err != nil || s.Back != 5 {
					t.Errorf("settle: %+v %v", s, err)
				}
				must(t, l, take(8))
				spent, err := l.View().Spend(t.Context(), quota.SpendQuery{Since: now})
				if err != nil || len(spent) != 1 || spent[0].Day != day || spent[0].Units != 10 {
					t.Errorf("spent %+v %v, want 10 units on %s", spent, err, day)
				}

				if err := l.BlockFor(t.Context(), pool, time.Hour, "slow down"); err != nil {
					t.Fatal(err)
				}
				var refused *quota.RefusedError
				if _, err := l.Reserve(t.Context(), take(1)); !errors.As(err, &refused) {
					t.Fatalf("a full pool: %v", err)
				}
				if !refused.RetryAt.Equal(now.Add(refused.RetryAfter)) || refused.RetryAfter < 24*time.Hour || refused.RetryAfter > 32*24*time.Hour {
					t.Errorf("retry after %s at %s", refused.RetryAfter, refused.RetryAt)
				}
				clock.Set(refused.RetryAt.Add(-time.Microsecond))
				if _, err := l.Reserve(t.Context(), take(1)); !errors.Is(err, quota.ErrRefused) {
					t.Errorf("too early: %v", err)
				}
				clock.Set(refused.RetryAt)
				if r := must(t, l, take(1)); r.Rebased {
					t.Error("re-based")
				}
			})
		})
	}
}

// In a file this takes five minutes, so it is tried in memory; storetest has a tenth
// of it for every store.
func TestAMillionKeys(t *testing.T) {
	keys, invented := 1_000, 10_000
	if os.Getenv("HEADROOM_SOAK") == "1" {
		keys, invented = 10_000, 1_000_000
	}
	book := mustParse(t, fmt.Sprintf("revision: 1\nfamilies: {client: {quota: 3, windows: [{per: 60s}], max_keys: %d}}", keys))
	clock := quota.NewSimClock(noon)
	l, err := quota.New(book, memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	granted := 0
	for i := range keys + invented {
		r, err := l.Reserve(t.Context(), quota.Call{Family: "client", Key: fmt.Sprint("key", i)})
		if err == nil && r.Overflow == (i >= keys) {
			granted++
		} else if !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("key %d: %+v %v", i, r, err)
		}
	}
	if granted != keys+3 {
		t.Errorf("granted %d times, want one for each of %d keys and 3 on the page that the others share", granted, keys)
	}
}

func TestWindowsOfAYear(t *testing.T) {
	for name, lasts := range map[string]time.Duration{
		"{per: 8760h}":                           8760*time.Hour + 6*time.Hour + 5*time.Minute, // and a bucket
		"{per: 8784h}":                           8784*time.Hour + 6*time.Hour + 6*time.Minute,
		"{per: 8784h, precision: 8784h}":         2 * 8784 * time.Hour,
		"{per: 8784h, algorithm: log}":           8784 * time.Hour,
		"{per: 8784h, algorithm: counter}":       2 * 8784 * time.Hour,
		"{per: 1ms}":                             2 * time.Millisecond,
		"{per: 1ms, precision: 1ms}":             2 * time.Millisecond,
		"{per: 4h, precision: 1s}":               4*time.Hour + time.Second, // as many buckets as there may be
		"{per: 1ms, algorithm: log}":             time.Millisecond,
		"{per: 1ms, algorithm: counter}":         2 * time.Millisecond,
		"{per: month, lag: 336h, zone: Etc/GMT}": 31*24*time.Hour + 2*336*time.Hour, // near a boundary it counts on both sides
	} {
		t.Run(name, func(t *testing.T) {
			book := fmt.Sprintf("revision: 1\nupstreams: {api: {pools: {units: {quota: 2147483647, windows: [%s]}}, methods: {all: 2147483647}}}", name)
			atHome(t, book, func(t *testing.T, l *quota.Ledger, clock *quota.SimClock) {
				must(t, l, quota.Call{Method: "all"})
				for range 3 {
					var refused *quota.RefusedError
					if _, err := l.Reserve(t.Context(), quota.Call{Method: "all"}); !errors.As(err, &refused) {
						t.Fatalf("a full pool: %v", err)
					}
					if refused.RetryAfter <= 0 || refused.RetryAfter > lasts {
						t.Errorf("retry after %s, want at most %s", refused.RetryAfter, lasts)
					}
					clock.Set(refused.RetryAt.Add(-time.Microsecond))
					if _, err := l.Reserve(t.Context(), quota.Call{Method: "all"}); !errors.Is(err, quota.ErrRefused) {
						t.Errorf("too early: %v", err)
					}
					clock.Set(refused.RetryAt)
					must(t, l, quota.Call{Method: "all"})
				}
			})
		})
	}
}
