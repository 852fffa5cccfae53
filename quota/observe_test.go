package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

const observedBook = `
revision: 1
upstreams:
  api:
    mode: observe
    pools: {units: {quota: 10, windows: [{per: 1h}]}}
    methods: {a: 4, dear: 10}
`

// observing is a ledger in mode observe, with the events it tells.
func observing(t *testing.T, text string, store quota.Store) (*quota.Ledger, *quota.SimClock, *[]quota.Event) {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	if store == nil {
		store = memstore.New(&memstore.Options{Clock: clock})
	}
	var events []quota.Event
	l, err := quota.New(b, store, &quota.Options{Clock: clock, Observer: quota.ObserverFunc(func(e quota.Event) { events = append(events, e) })})
	if err != nil {
		t.Fatal(err)
	}
	return l, clock, &events
}

func unitsUsed(t *testing.T, l *quota.Ledger, account string) int64 {
	t.Helper()
	all, err := l.View().Usage(t.Context(), "api", account)
	if err != nil {
		t.Fatal(err)
	}
	return all[0].Windows[0].Used
}

// In mode observe every call is let through, and counted.
func TestObserve(t *testing.T) {
	l, clock, events := observing(t, observedBook, nil)
	call := quota.Call{Method: "a"}
	last := func() quota.Event { return (*events)[len(*events)-1] }
	for i := range 4 {
		r, err := l.Wait(t.Context(), call, time.Hour)
		if err != nil || !r.Allowed || r.Units != 4 {
			t.Fatalf("call %d: %+v, %v", i, r, err)
		}
		want := quota.EventGranted
		if i >= 2 {
			want = quota.EventObserved
		}
		if e := last(); e.Kind != want || want == quota.EventObserved && (!errors.Is(e.Err, quota.ErrRefused) || e.Verdict.RetryAfter <= 0 || e.Pool.Name != "units") {
			t.Errorf("call %d: event %+v", i, e)
		}
	}
	if got := unitsUsed(t, l, ""); got != 16 {
		t.Errorf("%d units used, want 16", got)
	}
	if !clock.Now().Equal(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)) {
		t.Error("it waited")
	}
	t.Run("and settled, once", func(t *testing.T) {
		r, err := l.Reserve(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := r.Settle(t.Context(), quota.Units{"units": 1}); err != nil || s.Back != 3 {
			t.Errorf("%+v, %v", s, err)
		}
		if s, err := r.Release(t.Context()); err != nil || !s.Repeat {
			t.Errorf("%+v, %v", s, err)
		}
		if got := unitsUsed(t, l, ""); got != 17 {
			t.Errorf("%d units used, want 17", got)
		}
	})
	t.Run("an id counts once", func(t *testing.T) {
		for range 3 {
			if _, err := l.Reserve(t.Context(), quota.Call{Method: "a", ID: "mine"}); err != nil {
				t.Fatal(err)
			}
		}
		if got := unitsUsed(t, l, ""); got != 21 {
			t.Errorf("%d units used, want 21", got)
		}
	})
	t.Run("also one that is impossible", func(t *testing.T) {
		if _, err := l.Reserve(t.Context(), quota.Call{Charges: quota.Units{"units": 11}}); err != nil {
			t.Fatal(err)
		}
		if e := last(); e.Kind != quota.EventObserved || !errors.Is(e.Err, quota.ErrImpossible) || unitsUsed(t, l, "") != 32 {
			t.Errorf("event %+v, %d used", e, unitsUsed(t, l, ""))
		}
	})
	t.Run("also one without a price", func(t *testing.T) {
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "none"}); err != nil {
			t.Fatal(err)
		}
		if e := last(); e.Kind != quota.EventObserved || !errors.Is(e.Err, quota.ErrUnpriced) {
			t.Errorf("event %+v", e)
		}
	})
	t.Run("a hold too", func(t *testing.T) {
		h, err := l.Hold(t.Context(), call, 2)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(h.Context(t.Context()), call); err != nil || last().Kind != quota.EventDrawn {
			t.Errorf("%v, event %+v", err, last())
		}
		before := unitsUsed(t, l, "")
		if err := h.Close(t.Context()); err != nil || unitsUsed(t, l, "") != before-4 {
			t.Errorf("%v, %d used, then %d", err, before, unitsUsed(t, l, ""))
		}
	})
	t.Run("a block is noted", func(t *testing.T) {
		clock.Sleep(t.Context(), 2*time.Hour)
		pool := quota.Pool{Upstream: "api", Name: "units"}
		if err := l.BlockFor(t.Context(), pool, time.Hour, "enough"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if e := last(); e.Kind != quota.EventObserved || !errors.Is(e.Err, quota.ErrBlocked) || e.Verdict.Reason != "enough" || unitsUsed(t, l, "") != 4 {
			t.Errorf("event %+v, %d used", e, unitsUsed(t, l, ""))
		}
	})
	t.Run("bad input stays an error", func(t *testing.T) {
		for _, c := range []quota.Call{{Method: "a", Class: "none"}, {Method: "a", Account: "none"}, {Upstream: "none"}} {
			if _, err := l.Reserve(t.Context(), c); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
	t.Run("a cancelled context too", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Reserve(ctx, call); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// downStore cannot be reached.
type downStore struct{ quota.Store }

func (downStore) Reserve(context.Context, quota.Request) (quota.Verdict, error) {
	return quota.Verdict{}, errors.New("down")
}

func TestObserveInAnOutage(t *testing.T) {
	l, _, events := observing(t, observedBook, downStore{memstore.New(nil)})
	r, err := l.Reserve(t.Context(), quota.Call{Method: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if e := (*events)[0]; len(*events) != 1 || e.Kind != quota.EventObserved || !errors.Is(e.Err, quota.ErrOutage) {
		t.Errorf("events %+v", *events)
	}
	if _, err := r.Settle(t.Context(), quota.Units{"units": 1}); err != nil {
		t.Error(err)
	}
}

// unrecorded is a store that cannot record.
type unrecorded struct{ quota.Store }

func (unrecorded) Record(context.Context, quota.Request) (quota.Units, error) {
	return nil, errors.New("down")
}

// A call that would be refused is let through also if it cannot be recorded.
func TestObserveWhatCannotBeRecorded(t *testing.T) {
	l, _, events := observing(t, observedBook, unrecorded{memstore.New(nil)})
	must(t, l, quota.Call{Method: "dear"})
	*events = nil
	must(t, l, quota.Call{Method: "a"})
	if n := len(*events); n == 0 || !errors.Is((*events)[n-1].Err, quota.ErrOutage) {
		t.Errorf("events %+v", *events)
	}
}

const anyBook = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    accounts: {"*": {}, big: {pools: {units: {quota: 100}}}}
    max_accounts: 3
    unpriced: refuse
    classes: {backfill: {keep_free: 30%}}
    pools: {units: {quota: 10, windows: [{per: 1h}]}}
    methods: {a: 4, dear: 10}
    default: {GET: 2}
`

// Accounts that are not listed have the pools' limits, each its own, up to a bound.
func TestAnyAccount(t *testing.T) {
	l, _, events := observing(t, anyBook, nil)
	spend := func(account string) error {
		_, err := l.Reserve(t.Context(), quota.Call{Method: "a", Account: account})
		return err
	}
	for _, account := range []string{"one", "two/with:odd@names%2F", "drei ß"} {
		for range 2 {
			if err := spend(account); err != nil {
				t.Errorf("%s: %v", account, err)
			}
		}
		var refused *quota.RefusedError
		if err := spend(account); !errors.As(err, &refused) || refused.Limit != 10 || refused.Pool.Account != account {
			t.Errorf("%s: %v", account, err)
		}
		if got := unitsUsed(t, l, account); got != 8 {
			t.Errorf("%s: %d units used, want 8", account, got)
		}
	}
	if err := spend("big"); err != nil || unitsUsed(t, l, "big") != 4 {
		t.Errorf("listed: %v", err)
	}
	t.Run("beyond the bound they share a page", func(t *testing.T) {
		if err := errors.Join(spend("four"), spend("five")); err != nil {
			t.Fatal(err)
		}
		var refused *quota.RefusedError
		if err := spend("six"); !errors.As(err, &refused) || refused.Pool.Account != "*" {
			t.Errorf("error %v", err)
		}
		if got := unitsUsed(t, l, "*"); got != 8 {
			t.Errorf("%d units used, want 8", got)
		}
		if err := spend("big"); err != nil {
			t.Errorf("listed: %v", err)
		}
	})
	t.Run("events name the page", func(t *testing.T) {
		_, err := l.Reserve(t.Context(), quota.Call{Method: "none", Account: "eight"})
		if e := (*events)[len(*events)-1]; !errors.Is(err, quota.ErrUnpriced) || e.Kind != quota.EventUnpriced || e.Call.Account != "*" {
			t.Errorf("event %+v, %v", e, err)
		}
	})
	t.Run("another book does not make places", func(t *testing.T) {
		if err := l.SetBook(l.Book()); err != nil {
			t.Fatal(err)
		}
		if err := spend("seven"); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("odd names are errors", func(t *testing.T) {
		for _, account := range []string{"*", "a\nb", "a\x00", "\xff", strings.Repeat("x", 129)} {
			if err := spend(account); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("%q: %v", account, err)
			}
		}
	})
	t.Run("an impossible call names its account", func(t *testing.T) {
		_, err := l.Reserve(t.Context(), quota.Call{Method: "dear", Account: "one", Class: "backfill"})
		var impossible *quota.ImpossibleError
		if !errors.As(err, &impossible) || impossible.Pool.Account != "one" || !impossible.KeptFree {
			t.Errorf("error %v", err)
		}
	})
	t.Run("charges by pool, corrections and blocks too", func(t *testing.T) {
		pool := quota.Pool{Upstream: "api", Account: "one", Name: "units"}
		if _, err := l.Reserve(t.Context(), quota.Call{Account: "one", Charges: quota.Units{"units": 1}}); err != nil {
			t.Error(err)
		}
		if _, err := l.Admin().Adjust(t.Context(), pool, 1, "seen"); err != nil || unitsUsed(t, l, "one") != 10 {
			t.Errorf("%v, %d used", err, unitsUsed(t, l, "one"))
		}
		if err := l.BlockFor(t.Context(), pool, time.Hour, "no"); err != nil {
			t.Error(err)
		}
		if spent, err := l.View().Spend(t.Context(), quota.SpendQuery{Upstream: "api", Account: "one"}, quota.ByMethod); err != nil || len(spent) == 0 {
			t.Errorf("spend %v, %v", spent, err)
		}
	})
	t.Run("a default price is one", func(t *testing.T) {
		r, err := l.Reserve(t.Context(), quota.Call{Method: "GET default", Account: "big"})
		if err != nil || r.Units != 2 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	if all, err := l.View().Usage(t.Context(), "api", ""); err != nil || fmt.Sprint(len(all)) != "1" {
		t.Errorf("without an account %d pools, %v", len(all), err)
	}
}

// An account whose units have all come back makes room for another one.
func TestIdleAccountsMakeRoom(t *testing.T) {
	l, clock, events := observing(t, anyBook, nil)
	page := func(account string) string {
		t.Helper()
		r, err := l.Reserve(t.Context(), quota.Call{Method: "a", Account: account})
		if err != nil {
			t.Fatal(err)
		}
		return r.Pool.Account
	}
	for _, account := range []string{"one", "two", "three"} {
		page(account)
	}
	clock.Advance(50 * time.Minute)
	if got := page("one"); got != "one" {
		t.Errorf("the page of one is %s's", got)
	}
	if got := page("four"); got != "*" {
		t.Errorf("while all count, the page of four is %s's", got)
	}
	clock.Advance(15 * time.Minute) // two and three are idle
	if got := page("four"); got != "four" {
		t.Errorf("the page of four is %s's", got)
	}
	for _, account := range []string{"one", "five"} {
		if got := page(account); got != account {
			t.Errorf("the page of %s is %s's", account, got)
		}
	}
	if got := page("two"); got != "*" {
		t.Errorf("the page of two is %s's, though all count", got)
	}
	if _, err := l.Reserve(t.Context(), quota.Call{Method: "none", Account: "four"}); err == nil {
		t.Error("a call without a price")
	}
	if e := (*events)[len(*events)-1]; e.Call.Account != "*" {
		t.Errorf("events name %s: metrics have no end", e.Call.Account)
	}
}

// A call that is let through beyond its slots keeps none: nobody would give it back.
func TestObservedSlots(t *testing.T) {
	l, _, _ := observing(t, `
revision: 1
upstreams:
  api:
    mode: observe
    pools:
      at_once: {windows: [{in_flight: 1}]}
      tokens: {quota: 100, windows: [{per: 1h}]}
    methods: {ask: {charge: {at_once: 1, tokens: 10}}, enter: {charge: {at_once: 1}}}
`, nil)
	first, err := l.Reserve(t.Context(), quota.Call{Method: "ask"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Done(t.Context()) }()
	for _, method := range []string{"ask", "enter"} {
		r, err := l.Reserve(t.Context(), quota.Call{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.View().Usage(t.Context(), "api", "")
		if err != nil || all[0].Windows[0].Used != 1 {
			t.Errorf("%s: %d slots are taken, %v", method, all[0].Windows[0].Used, err)
		}
		if method == "ask" && all[1].Windows[0].Used != 20 {
			t.Errorf("%d tokens are used", all[1].Windows[0].Used)
		}
		if _, err := r.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := r.Done(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
