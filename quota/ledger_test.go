package quota_test

import (
	"context"
	"errors"
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
	all, err := l.View().Usage(t.Context(), "youtube", "default")
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
	all, err := l.View().Usage(t.Context(), "", "")
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

func must(t testing.TB, l *quota.Ledger, c quota.Call) *quota.Reservation {
	t.Helper()
	r, err := l.Reserve(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
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
	var told []quota.Event
	l, err := quota.New(mustParse(t, testBook), failing{}, &quota.Options{Observer: quota.ObserverFunc(func(e quota.Event) { told = append(told, e) })})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Reserve(t.Context(), units(1))
	if len(told) != 1 || told[0].Kind != quota.EventOutage || !errors.Is(told[0].Err, errDown) {
		t.Errorf("the observer is told %+v", told)
	}
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
	_, looked := l.View().Usage(t.Context(), "youtube", "")
	for said, err := range map[string]error{
		"reserve youtube/units: price book":          err,
		"look at youtube: youtube/units: price book": looked,
		"block youtube/units: price book":            l.Block(t.Context(), pool, noon.Add(time.Minute), "quotaExceeded"),
		"adjust youtube/units: price book":           errOf(l.Admin().Adjust(t.Context(), pool, 1, "the console shows more")),
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
	l.Admin().Unblock(t.Context(), pool)
	l.Admin().Adjust(t.Context(), pool, 1, "x")
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
