package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// TestLabelsDoNotHideSpend: a token that has a job of its own for each call does not use up
// the sets of labels that a ledger tells apart, so its budget is seen after a restart and by
// other proxies. Other tokens have a part of the sets.
func TestLabelsDoNotHideSpend(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC))
	grants := []Grant{{Upstreams: []string{"org"}, Budget: "1000000"}, {Upstreams: []string{"org"}}}
	r, _ := elsewhere(t, rigOptions{grants: grants, clock: clock})
	sent := 0
	send := func(h *Handler) {
		t.Helper()
		for range 1300 {
			sent++
			req := httptest.NewRequestWithContext(t.Context(), "GET", "/org/v1/items", nil)
			req.Host = "localhost"
			req.Header.Set("X-Org-Key", theToken)
			req.Header.Set("Headroom-Job", fmt.Sprint("job", sent))
			req.Header.Set("Headroom-Region", fmt.Sprint(sent%7))
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, req); w.Code != http.StatusOK {
				t.Fatalf("call %d: %d %s", sent, w.Code, w.Body)
			}
		}
	}
	for range 2 {
		h, err := New(r.ledger, tokensOf(t, grants...), &Options{Clock: clock, Log: r.handler.set.Log, Base: r.handler.set.Base, Keys: keysOfOrg})
		if err != nil {
			t.Fatal(err)
		}
		send(h)
	}
	all, err := r.ledger.View().Spend(t.Context(), quota.SpendQuery{})
	if err != nil {
		t.Fatal(err)
	}
	units := int64(0)
	for _, s := range all {
		if s.Labels.Job == "etl" || strings.HasPrefix(s.Labels.Job, "etl/") {
			units += s.Units
		}
	}
	if len(all) > mostSets/2+1 || units != int64(2*sent) {
		t.Errorf("%d sets of labels have %d units, want at most %d and %d", len(all), units, mostSets/2+1, 2*sent)
	}
	clock.Advance(time.Hour)
	h, err := New(r.ledger, tokensOf(t, grants...), &Options{Clock: clock, Log: r.handler.set.Log})
	if err != nil {
		t.Fatal(err)
	}
	<-h.set.Budgets.read(t.Context())
	if spent := h.set.Budgets.spends["etl"].whole.Spent(); spent != units {
		t.Errorf("after a restart %d of %d units are known", spent, units)
	}
}

// slowly is a store whose spend is not read before the gate opens.
type slowly struct {
	quota.Store
	gate chan struct{}
}

func (s slowly) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	<-s.gate
	return s.Store.Spend(ctx, q)
}

// slowLedger returns a ledger that tells its spend once open is called.
func slowLedger(t *testing.T, r *rig) (l *quota.Ledger, open func()) {
	t.Helper()
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	l, err := quota.New(r.ledger.Book(), slowly{memstore.New(nil), gate}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, open
}

// TestSlowLedgerHoldsUpBudgetsOnly: while the spend is first read, tokens without a budget
// call, and a program that waits for its budget can hang up.
func TestSlowLedgerHoldsUpBudgetsOnly(t *testing.T) {
	r := newRig(t, rigOptions{})
	ledger, open := slowLedger(t, r)
	var err error
	grants := []Grant{{Upstreams: []string{"api"}, Budget: "5"}, {Upstreams: []string{"api"}}}
	if r.handler, err = New(ledger, tokensOf(t, grants...), &Options{Log: r.handler.set.Log, Keys: keysOfAPI}); err != nil {
		t.Fatal(err)
	}
	r.server.Config.Handler = r.handler
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer func() { _ = recover() }() // as net/http does
		req := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/items", nil)
		req.Host = "localhost"
		req.Header.Set("X-Api-Key", theToken)
		r.handler.ServeHTTP(httptest.NewRecorder(), req)
	}()
	until(t, "the spend is asked for", func() bool {
		r.handler.set.Budgets.mu.Lock()
		defer r.handler.set.Budgets.mu.Unlock()
		return r.handler.set.Budgets.first != nil
	})
	other := r.request("GET", "/api/v1/items", nil)
	other.Header.Set("X-Api-Key", strings.Repeat("1", 32))
	soon, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other = other.WithContext(soon)
	if got := r.send(other); got.StatusCode != http.StatusOK {
		t.Errorf("without a budget: %s %s", got.Status, got.body)
	}
	select {
	case <-gone:
		t.Error("a call with a budget did not wait")
	default:
	}
	hangUp()
	select {
	case <-gone:
	case <-soon.Done():
		t.Error("a call that hung up still waits")
	}
	open()
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusOK {
		t.Errorf("with a budget: %s %s", got.Status, got.body)
	}
}

// TestFlushWaitsForBudgets: the ledger may be closed after Flush, so nobody asks it any more.
func TestFlushWaitsForBudgets(t *testing.T) {
	r := newRig(t, rigOptions{})
	ledger, open := slowLedger(t, r)
	var err error
	if r.handler, err = New(ledger, tokensOf(t, Grant{Upstreams: []string{"api"}}), &Options{Log: r.handler.set.Log, Keys: keysOfAPI}); err != nil {
		t.Fatal(err)
	}
	r.server.Config.Handler = r.handler
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusOK {
		t.Errorf("%s %s", got.Status, got.body)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.handler.Flush(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the spend is read: %v", err)
	}
	open()
	if err := r.handler.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestBudgetsFollowTheLedger: a budget counts what the calls of another proxy have cost, and
// no longer what they reserved. It forgets nothing that could not be read.
func TestBudgetsFollowTheLedger(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	grants := []Grant{{Upstreams: []string{"api"}, Budget: "100"}}
	r := newRig(t, rigOptions{grants: grants, clock: clock})
	store := &unreadable{Store: memstore.New(&memstore.Options{Clock: clock})}
	ledger, err := quota.New(r.ledger.Book(), store, &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(ledger, tokensOf(t, grants...), &Options{Clock: clock, Log: r.handler.set.Log, Base: r.handler.set.Base, Keys: keysOfAPI})
	if err != nil {
		t.Fatal(err)
	}
	r.server.Config.Handler = h
	spent := func(want int64) {
		t.Helper()
		until(t, fmt.Sprintf("%d units are spent", want), func() bool { // the last call has the spend read, too
			h.set.Budgets.refresh(t.Context(), clock.Now())
			h.set.Budgets.mu.Lock()
			defer h.set.Budgets.mu.Unlock()
			return h.set.Budgets.spends["etl"].whole.Spent() == want
		})
	}
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusOK { // 2
		t.Fatalf("%s %s", got.Status, got.body)
	}
	other, err := ledger.Reserve(t.Context(), quota.Call{Upstream: "api", Method: "post", Job: "etl", Estimate: quota.Units{"units": 90}})
	if err != nil {
		t.Fatal(err)
	}
	spent(92)
	if _, err := other.Settle(t.Context(), quota.Units{"units": 3}); err != nil {
		t.Fatal(err)
	}
	store.broken.Store(true)
	spent(92)
	if !strings.Contains(r.log.String(), "count only the calls of this process") {
		t.Errorf("the log does not say it: %s", r.log)
	}
	store.broken.Store(false)
	spent(5)
	grants[0].Budget = "200" // while the process runs
	h.Update(tokensOf(t, grants...))
	spent(5)
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusOK {
		t.Errorf("%s %s", got.Status, got.body)
	}
	spent(7)
}

// TestBudgetsOutsideTheProxy: reservations that do not come through the proxy spend from the same
// budgets of a day. The day begins at midnight, before the ledger is asked again.
func TestBudgetsOutsideTheProxy(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 22, 23, 59, 58, 0, time.UTC))
	grants := []Grant{{Upstreams: []string{"api"}, Budget: "5"}, {Upstreams: []string{"api"}}}
	r := newRig(t, rigOptions{grants: grants, clock: clock})
	budgets := r.handler.set.Budgets
	if b := budgets.Today(t.Context(), "etl2"); b != nil {
		t.Errorf("a token without a budget has %v", b)
	}
	for range 2 {
		if err := budgets.Today(t.Context(), "etl").Take(3); err != nil {
			t.Error(err)
		}
		if err := budgets.Today(t.Context(), "etl").Take(3); !errors.Is(err, meter.ErrBudget) {
			t.Errorf("3 of the 2 that are left: %v", err)
		}
		if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusOK {
			t.Errorf("a call of 2: %s %s", got.Status, got.body)
		}
		if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusTooManyRequests {
			t.Errorf("a call of 2 more: %s %s", got.Status, got.body)
		}
		clock.Advance(3 * time.Second)
	}
}

// TestBudgetsCountUnlistedAccounts once, also if the price book lists only some of what a token names.
func TestBudgetsCountUnlistedAccounts(t *testing.T) {
	grants := []Grant{{Upstreams: []string{"api", "shop"}, Accounts: []string{"default", "mine"}, Budget: "100"}}
	r := newRig(t, rigOptions{grants: grants, clock: quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC))})
	for _, call := range []quota.Call{{Upstream: "api", Method: "get"}, {Upstream: "shop", Method: "list", Account: "mine"}} {
		call.Job = "etl/elsewhere"
		if _, err := r.ledger.Reserve(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	if b := r.handler.set.Budgets.Today(t.Context(), "etl"); b.Take(98) == nil || b.Take(97) != nil {
		t.Errorf("the 3 units of two calls are not counted once: %v", b)
	}
}

// unreadable is a store whose spend cannot be read while it is broken.
type unreadable struct {
	quota.Store
	broken atomic.Bool
}

func (u *unreadable) Spend(ctx context.Context, q quota.SpendQuery) ([]quota.Spent, error) {
	if u.broken.Load() {
		return nil, errors.New("the spend cannot be read")
	}
	return u.Store.Spend(ctx, q)
}
