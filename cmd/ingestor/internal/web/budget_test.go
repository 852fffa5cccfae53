package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/quota"
)

// hungUp has a caller hang up while a reservation is under way, which is granted all the same.
type hungUp struct {
	quota.Store
	hang func()
}

func (s *hungUp) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if s.hang == nil {
		return s.Store.Reserve(ctx, r)
	}
	s.hang()
	s.hang = nil
	v, err := s.Store.Reserve(context.WithoutCancel(ctx), r)
	if gone := ctx.Err(); gone != nil {
		return quota.Verdict{}, gone
	}
	return v, err
}

// A caller that hangs up and asks again under its id gets what it was granted. That is counted in
// the budget of its token, once.
func TestAHungUpCallIsInTheBudget(t *testing.T) {
	store := &hungUp{}
	r := newApart(t, func(t *testing.T, clock quota.Clock) quota.Store {
		store.Store = inMemory(t, clock)
		return store
	})
	body := func(id string) string { return object("upstream", "other", "method", "get", "id", id) }
	for _, id := range []string{"a", "b", "c", "d"} { // carol may spend 10, and a call costs 2
		ctx, cancel := context.WithCancel(t.Context())
		store.hang = cancel
		req := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/reserve", strings.NewReader(body(id)))
		req.Header.Set("Authorization", "Bearer "+carol.text)
		func() {
			defer func() { _ = recover() }() // http.ErrAbortHandler: there is nobody to answer
			r.server.ServeHTTP(httptest.NewRecorder(), req)
		}()
		var g problem.Verdict
		if got, text := r.as(carol, "/v1/reserve", body(id), &g); got != http.StatusOK {
			t.Fatalf("again: %d %s", got, text)
		}
	}
	if got := r.spent()["carol"]; got != 8 {
		t.Errorf("%d are spent, want 8", got)
	}
	if got, text := r.as(carol, "/v1/reserve", body("e"), nil); got != http.StatusOK {
		t.Errorf("the last one: %d %s", got, text)
	}
	if got, text := r.as(carol, "/v1/reserve", body("f"), nil); got != http.StatusTooManyRequests {
		t.Errorf("beyond the budget: %d %s", got, text)
	}
}

// leaver has a caller hang up when it was refused, and so waits.
type leaver struct {
	quota.Store
	leave func()
}

func (s *leaver) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	if !v.Allowed && s.leave != nil {
		s.leave()
	}
	return v, err
}

// A call whose caller hangs up while it waits is not in the budget of its token.
func TestACallThatWasLetGoIsNotInTheBudget(t *testing.T) {
	store := &leaver{}
	r := newApart(t, func(t *testing.T, clock quota.Clock) quota.Store {
		store.Store = inMemory(t, clock)
		return store
	})
	r.Must(r.Ledger.BlockFor(t.Context(), quota.Pool{Upstream: "other", Account: "default", Name: "units"}, 3*time.Second, "a test"))
	ctx, cancel := context.WithCancel(t.Context())
	store.leave = cancel
	req := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/v1/reserve", strings.NewReader(`{"upstream": "other", "method": "get", "class": "bulk", "id": "a", "wait": 5}`))
	req.Header.Set("Authorization", "Bearer "+carol.text)
	func() {
		defer func() { _ = recover() }() // http.ErrAbortHandler: there is nobody to answer
		r.server.ServeHTTP(httptest.NewRecorder(), req)
	}()
	if ctx.Err() == nil {
		t.Fatal("it was not refused")
	}
	store.leave = nil
	for i := range 5 { // carol may spend 10, and a call costs 2
		r.Clock.Advance(time.Minute) // after a block one call goes first
		if got, text := r.as(carol, "/v1/reserve", object("upstream", "other", "method", "get"), nil); got != http.StatusOK {
			t.Errorf("call %d: %d %s", i, got, text)
		}
	}
}

// The limits of a program's own clients are no spend of its token.
func TestFamiliesAreNotInTheBudget(t *testing.T) {
	r := newApart(t, inMemory)
	for range 6 {
		if got, text := r.as(carol, "/v1/reserve", object("family", "visitor", "key", "k", "units", 2), nil); got != http.StatusOK {
			t.Fatalf("of a family: %d %s", got, text)
		}
	}
	if got, text := r.as(carol, "/v1/reserve", object("upstream", "other", "method", "get"), nil); got != http.StatusOK {
		t.Errorf("after that: %d %s", got, text)
	}
}
