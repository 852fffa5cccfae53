package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// noon is noon in Los Angeles on a day without a change of the clocks.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

const testBook = `
revision: 1
upstreams:
  youtube:
    accounts: {default: {}, staging: {pools: {units: {quota: 1000, headroom: 0}}}}
    classes:
      backfill: {keep_free: 30%, outage: refuse}
      manual: {use_headroom: true}
      careful: {keep_free: 15}
    pools:
      units:    {quota: 100, headroom: 10, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}, {per: 10m, quota: 60}]}
      searches: {quota: 20, headroom: 0, windows: [{per: 1h, algorithm: log}]}
    methods:
      videos.list: {pool: units, cost: 1, outage: admit}
      search.list: {charge: {units: 20, searches: 1}}
      free.call:   {pool: units, cost: 0}
  github:
    unpriced: admit
    pools: {core: {quota: 60, windows: [{per: 1h}]}}
    methods: {get: 1}
families:
  client:
    quota: 3
    windows: [{per: 60s}]
    max_keys: 2
    keys: {vip: 5}
`

func mustParse(t testing.TB, text string) *quota.Book {
	t.Helper()
	costs, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return costs
}

func newLedger(t testing.TB) (*quota.Ledger, *quota.SimClock) {
	t.Helper()
	clock := quota.NewSimClock(noon)
	l, err := quota.New(mustParse(t, testBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l, clock
}

func units(n int64) quota.Call {
	return quota.Call{Upstream: "youtube", Charges: map[string]int64{"units": n}}
}

func used(t testing.TB, l *quota.Ledger, pool, window string) int64 {
	t.Helper()
	all, err := l.Usage(t.Context(), "youtube", "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		for _, w := range u.Allowances {
			if u.Pool.Name == pool && w.Window == window {
				return w.Used
			}
		}
	}
	t.Fatalf("no window %q of pool %q", window, pool)
	return 0
}

func TestUsageTellsTheSpecOfEachWindow(t *testing.T) {
	l, _ := newLedger(t)
	all, err := l.Usage(t.Context(), "", "")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, u := range all {
		for _, w := range u.Allowances {
			if w.Spec.String() != w.Window {
				t.Errorf("%s: %q has the spec of %q", u.Pool, w.Window, w.Spec)
			}
		}
	}
}

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

func must(t testing.TB, l *quota.Ledger, c quota.Call) *quota.Reservation {
	t.Helper()
	r, err := l.Reserve(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
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

func TestSettle(t *testing.T) {
	t.Run("down gives back, once", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, units(30))
		s, err := r.Settle(t.Context(), quota.Units{"units": 10})
		if diff := cmp.Diff(quota.Settlement{Back: 20}, s); err != nil || diff != "" {
			t.Error(err, diff)
		}
		s, err = r.Release(t.Context())
		if diff := cmp.Diff(quota.Settlement{Back: 20, Repeat: true}, s); err != nil || diff != "" {
			t.Error(err, diff)
		}
		if n := used(t, l, "units", "24h"); n != 10 {
			t.Errorf("used %d", n)
		}
	})
	t.Run("up charges now and may pass the limit", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, units(30))
		s, err := r.Settle(t.Context(), quota.Units{"units": 95})
		if diff := cmp.Diff(quota.Settlement{Charged: 65}, s); err != nil || diff != "" {
			t.Error(err, diff)
		}
		if n := used(t, l, "units", "24h"); n != 95 {
			t.Errorf("used %d", n)
		}
		if _, err := l.Reserve(t.Context(), units(1)); !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
	t.Run("survives a caller that gave up", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, units(30))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s, err := r.Release(ctx); err != nil || s.Back != 30 {
			t.Error(s, err)
		}
	})
	t.Run("several pools are settled by name", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, quota.Call{Upstream: "youtube", Method: "search.list"})
		if s, err := r.Settle(t.Context(), quota.Units{"units": 5, "searches": 1}); err != nil || s.Back != 15 {
			t.Error(s, err)
		}
	})
	t.Run("the order of a reservation's pools does not matter", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, quota.Call{Upstream: "youtube", Charges: quota.Units{"units": 50, "searches": 1}})
		if _, err := l.Settle(t.Context(), r.Token(), quota.Units{"units": 40}); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "searches") {
			t.Error("one pool of two:", err)
		}
		if s, err := l.Settle(t.Context(), r.Token(), quota.Units{"units": 40, "searches": 1}); err != nil || s != (quota.Settlement{Back: 10}) {
			t.Error(s, err)
		}
		if u, s := used(t, l, "units", "24h"), used(t, l, "searches", "1h log"); u != 40 || s != 1 {
			t.Errorf("used %d units and %d searches", u, s)
		}
	})
	t.Run("a token carries it to another process", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, units(30))
		verdict := r.Verdict
		token, err := quota.ParseToken(verdict.Token().String())
		if err != nil {
			t.Fatal(err)
		}
		if s, err := l.Settle(t.Context(), token, quota.Units{"units": 0}); err != nil || s.Back != 30 {
			t.Error(s, err)
		}
		token.Nonce[0] ^= 1
		if _, err := l.Settle(t.Context(), token, quota.Units{"units": 0}); !errors.Is(err, quota.ErrBadInput) {
			t.Error("a guessed token:", err)
		}
		for _, text := range []string{"x", "", "bm90IGpzb24", verdict.Token().String()[:20]} {
			if _, err := quota.ParseToken(text); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("ParseToken(%q): %v", text, err)
			}
		}
	})
}

func TestDo(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name string
		err  error
		used int64
	}{
		{"an answered call stays charged", nil, 1},
		{"a failed call stays charged", boom, 1},
		{"an unsent call is released", fmt.Errorf("dial: %w", quota.ErrUnsent), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, _ := newLedger(t)
			err := l.Do(t.Context(), quota.Call{Upstream: "youtube", Method: "videos.list"}, func(context.Context) error { return test.err })
			if !errors.Is(err, test.err) {
				t.Error(err)
			}
			if n := used(t, l, "units", "24h"); n != test.used {
				t.Errorf("used %d, want %d", n, test.used)
			}
		})
	}
	t.Run("an unsent call of a family stays charged, as families take no receipts", func(t *testing.T) {
		l, _ := newLedger(t)
		call := quota.Call{Family: "client", Key: "k", Units: 2}
		if err := l.Do(t.Context(), call, func(context.Context) error { return quota.ErrUnsent }); err != quota.ErrUnsent { //nolint:errorlint // nothing may be joined to it
			t.Error(err)
		}
		if _, err := l.Reserve(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
	t.Run("a refused call is not made", func(t *testing.T) {
		l, _ := newLedger(t)
		must(t, l, units(60))
		err := l.Do(t.Context(), units(1), func(context.Context) error { t.Error("called"); return nil })
		if !errors.Is(err, quota.ErrRefused) {
			t.Error(err)
		}
	})
}

// deadline is a context with a deadline by the clock of a test: it never passes.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

func TestWait(t *testing.T) {
	t.Run("waits as long as the ledger says, and hardly longer", func(t *testing.T) {
		l, clock := newLedger(t)
		must(t, l, units(60))
		r, err := l.Wait(t.Context(), units(1), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if waited := clock.Now().Sub(noon); waited < 601*time.Second || waited > 603*time.Second {
			t.Errorf("waited %s", waited)
		}
		if r.Used != 61 {
			t.Errorf("%+v", r.Verdict)
		}
	})
	t.Run("returns a refusal that is farther off at once", func(t *testing.T) {
		l, clock := newLedger(t)
		must(t, l, units(60))
		_, err := l.Wait(t.Context(), units(1), 600*time.Second)
		if !errors.Is(err, quota.ErrRefused) || clock.Now() != noon {
			t.Error(err, clock.Now())
		}
	})
	t.Run("never waits past the deadline of the context", func(t *testing.T) {
		l, clock := newLedger(t)
		must(t, l, units(60))
		_, err := l.Wait(deadline{t.Context(), noon.Add(5 * time.Minute)}, units(1), time.Hour)
		if !errors.Is(err, quota.ErrRefused) || clock.Now() != noon {
			t.Error(err, clock.Now())
		}
	})
	t.Run("ends when it is cancelled", func(t *testing.T) {
		store := memstore.New(nil)
		l, err := quota.New(mustParse(t, testBook), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		must(t, l, units(60))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := l.Wait(ctx, units(1), time.Hour)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("does not wait for what is impossible", func(t *testing.T) {
		l, clock := newLedger(t)
		if _, err := l.Wait(t.Context(), units(91), 1000*time.Hour); !errors.Is(err, quota.ErrImpossible) || clock.Now() != noon {
			t.Error(err)
		}
	})
}

func TestFamilies(t *testing.T) {
	client := func(key string) quota.Call { return quota.Call{Family: "client", Key: key} }
	t.Run("charges are named after the family", func(t *testing.T) {
		l, _ := newLedger(t)
		r := must(t, l, client("203.0.113.7"))
		if diff := cmp.Diff(quota.Units{"client": 1}, r.Charges()); diff != "" {
			t.Error(diff)
		}
		for units, want := range map[string]string{"client": "takes no receipts", "": `the units of pool "client" are missing`} {
			_, err := r.Settle(t.Context(), quota.Units{units: 0})
			if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), want) {
				t.Errorf("settle %q: %v, want %s", units, err, want)
			}
		}
	})
	granted := func(l *quota.Ledger, key string) (n int) {
		for range 10 {
			if _, err := l.Reserve(t.Context(), client(key)); err == nil {
				n++
			}
		}
		return n
	}
	t.Run("a page per key, overrides, and one page for too many", func(t *testing.T) {
		l, clock := newLedger(t)
		if n := granted(l, "a"); n != 3 {
			t.Errorf("a: %d", n)
		}
		if n := granted(l, "b"); n != 3 {
			t.Errorf("b: %d", n)
		}
		if n := granted(l, "c") + granted(l, "d"); n != 3 {
			t.Errorf("new keys beyond max_keys share one page, but got %d", n)
		}
		if n := granted(l, "vip"); n != 5 {
			t.Errorf("a key listed in the book has its own page and limit, but got %d", n)
		}
		clock.Advance(2 * time.Minute)
		if n := granted(l, "e"); n != 3 {
			t.Errorf("idle pages go first, but e got %d", n)
		}
	})
	t.Run("a key of the book's own does not keep idle ones alive", func(t *testing.T) {
		l, clock := newLedger(t)
		granted(l, "vip")
		granted(l, "a")
		clock.Advance(2 * time.Minute)
		granted(l, "vip")
		for _, key := range []string{"b", "c"} {
			if n := granted(l, key); n != 3 {
				t.Errorf("%s got %d", key, n)
			}
		}
	})
	t.Run("any bytes are a key", func(t *testing.T) {
		l, _ := newLedger(t)
		for _, key := range []string{strings.Repeat("k", 10_000), "\x00\xff"} {
			r, err := l.Reserve(t.Context(), client(key))
			if err != nil || len(r.Pool.Key) != 64 {
				t.Error(r, err)
			}
		}
	})
	t.Run("no key is the hash of another", func(t *testing.T) {
		l, _ := newLedger(t)
		r, err := l.Reserve(t.Context(), client(strings.Repeat("k", 100)))
		if err != nil {
			t.Fatal(err)
		}
		page := r.Pool.Key
		if r, err = l.Reserve(t.Context(), client(page)); err != nil || r.Pool.Key == page {
			t.Errorf("two keys share the page %s; %v", page, err)
		}
	})
	t.Run("more than the limit at once is impossible", func(t *testing.T) {
		l, _ := newLedger(t)
		c := client("a")
		c.Units = 4
		if _, err := l.Reserve(t.Context(), c); !errors.Is(err, quota.ErrImpossible) {
			t.Error(err)
		}
	})
}

// failing is a store that cannot be reached.
type failing struct{ quota.Store }

var errDown = errors.New("connection refused")

func (failing) Reserve(context.Context, quota.Request) (quota.Verdict, error) {
	return quota.Verdict{}, errDown
}

func (failing) Settle(context.Context, quota.Token, quota.Units) (quota.Settlement, error) {
	return quota.Settlement{}, errDown
}

// Promise 11, as far as a ledger without a journal goes: unknown is not refused.
func TestOutageIsNotARefusal(t *testing.T) {
	l, err := quota.New(mustParse(t, testBook), failing{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Reserve(t.Context(), units(1))
	if !errors.Is(err, quota.ErrOutage) || errors.Is(err, quota.ErrRefused) || !errors.Is(err, errDown) {
		t.Error(err)
	}
	if want := "reserve youtube/units: ledger outage, and the call's policy is to refuse: connection refused"; err.Error() != want {
		t.Errorf("got %s", err)
	}
}

func TestRefusedErrorIsShortAndNotTooEarly(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{24*time.Hour + time.Minute, "24h1m"},
		{24 * time.Hour, "24h"},
		{24*time.Hour + time.Second, "24h0m1s"},
		{10*time.Minute + 10*time.Second, "10m10s"},
		{10*time.Minute + time.Second, "10m1s"},
		{10 * time.Minute, "10m"},
		{time.Minute, "1m"},
		{59*time.Second + 1, "1m"},
		{30 * time.Second, "30s"},
		{10 * time.Second, "10s"},
		{9*time.Second + 1, "9.001s"},
		{time.Microsecond, "1ms"},
	} {
		err := &quota.RefusedError{Verdict: quota.Verdict{RetryAfter: c.after}}
		if got := err.Error(); !strings.Contains(got, "retry after "+c.want+" at") {
			t.Errorf("%s: %s, want %s", c.after, got, c.want)
		}
	}
}

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
		if err := l.Unblock(t.Context(), pool); err != nil {
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

func TestAdjust(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	l, _ := newLedger(t)
	must(t, l, quota.Call{Upstream: "youtube", Method: "videos.list", Job: "trending", Region: "DE"})
	for _, n := range []int64{120, -50} {
		if _, err := l.Adjust(t.Context(), pool, n, "the console says so"); err != nil {
			t.Fatal(err)
		}
	}
	if n := used(t, l, "units", "24h"); n != 71 {
		t.Errorf("used %d, want 71", n)
	}
	spent, err := l.Spend(t.Context(), quota.SpendQuery{Upstream: "youtube", Account: "default"})
	if err != nil {
		t.Fatal(err)
	}
	want := []quota.Spent{
		{Pool: pool, Day: "2026-11-20", Labels: quota.Labels{Reason: "the console says so"}, Units: 70, Calls: 2},
		{Pool: pool, Day: "2026-11-20", Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE"}, Units: 1, Calls: 1},
	}
	if diff := cmp.Diff(want, spent); diff != "" {
		t.Error(diff)
	}
	for _, err := range []error{
		errOf(l.Adjust(t.Context(), pool, 0, "x")),
		errOf(l.Adjust(t.Context(), pool, 5, "")),
		errOf(l.Adjust(t.Context(), pool, -1<<53, "x")),
	} {
		if !errors.Is(err, quota.ErrBadInput) {
			t.Error(err)
		}
	}
}

// Adjust gives back no more units than were used, and the spend shows only those.
func TestAdjustGivesBackWhatWasUsed(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	l, _ := newLedger(t)
	must(t, l, units(48))
	for _, step := range []struct{ units, want int64 }{{-999_999, -48}, {-5, 0}, {7, 7}, {-3, -3}} {
		if got, err := l.Adjust(t.Context(), pool, step.units, "counted again"); err != nil || got != step.want {
			t.Errorf("adjust by %d: recorded %d (%v), want %d", step.units, got, err, step.want)
		}
	}
	if n := used(t, l, "units", "24h"); n != 4 {
		t.Errorf("used %d, want 4", n)
	}
	spent, err := l.Spend(t.Context(), quota.SpendQuery{}, quota.ByPool)
	if err != nil || len(spent) != 1 || spent[0].Units != 4 {
		t.Errorf("spent %+v (%v), want the 4 that are used", spent, err)
	}
}

// A pool without an account is a pool of the default account, as in a call. People and
// observers see it as such.
func TestPoolWithoutAccount(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Name: "units"}
	var told []string
	l, err := quota.New(mustParse(t, testBook), memstore.New(nil), &quota.Options{
		Observer: quota.ObserverFunc(func(e quota.Event) { told = append(told, e.Pool.Account+" "+e.Pool.String()) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Adjust(t.Context(), pool, 1, "the console says so"); err != nil {
		t.Fatal(err)
	}
	if err := l.BlockFor(t.Context(), pool, time.Minute, "429"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"default youtube/units", "default youtube/units"}; !slices.Equal(told, want) {
		t.Errorf("observed %q, want %q", told, want)
	}
	spent, err := l.Spend(t.Context(), quota.SpendQuery{}, quota.ByMethod)
	if err != nil || len(spent) != 1 || spent[0].Pool.String() != "youtube/units" {
		t.Error("spend of all accounts:", spent, err)
	}
}

func TestSpendByDimension(t *testing.T) {
	l, _ := newLedger(t)
	for _, region := range []string{"DE", "FR", "DE"} {
		must(t, l, quota.Call{Upstream: "youtube", Method: "videos.list", Job: "trending", Region: region})
	}
	must(t, l, quota.Call{Upstream: "youtube", Method: "search.list", Job: "news", Region: "DE"})
	spent, err := l.Spend(t.Context(), quota.SpendQuery{Upstream: "youtube", Account: "default"}, quota.ByRegion)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range spent {
		got = append(got, fmt.Sprintf("%s %s %d in %d", s.Pool.Name, s.Labels.Region, s.Units, s.Calls))
	}
	want := []string{"searches DE 1 in 1", "units DE 22 in 3", "units FR 1 in 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := l.Spend(t.Context(), quota.SpendQuery{}, "colour"); !errors.Is(err, quota.ErrBadInput) {
		t.Error(err)
	}
}

func TestSetBook(t *testing.T) {
	l, _ := newLedger(t)
	must(t, l, units(60))
	lower := strings.Replace(testBook, "per: 10m, quota: 60", "per: 10m, quota: 80", 1)
	if err := l.SetBook(mustParse(t, lower)); err != nil {
		t.Fatal(err)
	}
	r := must(t, l, units(20)) // a changed limit applies at once
	if r.Used != 80 {
		t.Errorf("%+v", r.Verdict)
	}
	newer := strings.Replace(testBook, "revision: 1", "revision: 2", 1)
	newer = strings.Replace(newer, ", {per: 10m, quota: 60}", "", 1)
	if err := l.SetBook(mustParse(t, newer)); err != nil {
		t.Fatal(err)
	}
	if r := must(t, l, units(10)); r.Used != 90 {
		t.Errorf("the windows that stay keep what was used: %+v", r.Verdict)
	}
	if err := l.SetBook(mustParse(t, testBook)); err != nil {
		t.Fatal(err)
	}
	_, err := l.Reserve(t.Context(), units(1))
	if !errors.Is(err, quota.ErrStaleBook) || !strings.Contains(err.Error(), "price book has revision 1, and the ledger has seen revision 2\nIf this book is the newer one, raise its revision to 3") {
		t.Error(err)
	}
	pool := quota.Pool{Upstream: "youtube", Name: "units"}
	_, looked := l.Usage(t.Context(), "youtube", "")
	for said, err := range map[string]error{
		"reserve youtube/units: price book":          err,
		"look at youtube: youtube/units: price book": looked,
		"block youtube/units: price book":            l.Block(t.Context(), pool, noon.Add(time.Minute), "quotaExceeded"),
		"adjust youtube/units: price book":           errOf(l.Adjust(t.Context(), pool, 1, "the console shows more")),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), said) {
			t.Errorf("%v, want %s ...", err, said)
		}
	}
	if err := l.SetBook(&quota.Book{}); err == nil {
		t.Error("a book that was not parsed was taken")
	}
}

func TestObserver(t *testing.T) {
	var got []quota.EventKind
	clock := quota.NewSimClock(noon)
	l, err := quota.New(mustParse(t, testBook), memstore.New(&memstore.Options{Clock: clock}), &quota.Options{
		Clock:    clock,
		Observer: quota.ObserverFunc(func(e quota.Event) { got = append(got, e.Kind) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	r := must(t, l, units(60))
	l.Reserve(t.Context(), units(1))
	r.Release(t.Context())
	l.Reserve(t.Context(), units(1000))
	l.Reserve(t.Context(), units(-1))
	l.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "nope"})
	l.Block(t.Context(), pool, noon, "over already, so nothing was shut")
	l.BlockFor(t.Context(), pool, time.Minute, "")
	l.Reserve(t.Context(), units(1))
	l.Unblock(t.Context(), pool)
	l.Adjust(t.Context(), pool, 1, "x")
	clock.Set(noon.AddDate(73, 0, 0)) // 2099
	must(t, l, units(1))
	clock.Set(noon)
	must(t, l, units(1))
	want := []quota.EventKind{
		"granted", "refused", "settled", "impossible", "failed", "unpriced", "shut", "blocked", "opened", "adjusted",
		"granted", "granted", "rebased",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConcurrentUse(t *testing.T) {
	l, _ := newLedger(t)
	var granted atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 50 {
				if _, err := l.Reserve(t.Context(), units(1)); err == nil {
					granted.Add(1)
				} else if !errors.Is(err, quota.ErrRefused) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if granted.Load() != 60 {
		t.Errorf("granted %d of 60", granted.Load())
	}
}

// errOf is the error of a call whose answer does not matter.
func errOf[T any](_ T, err error) error { return err }
