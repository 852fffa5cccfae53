package meter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

func TestBudget(t *testing.T) {
	r := newRig(t, nil, nil)
	whole := meter.NewBudget(12)
	one, two := whole.Part(), whole.Part()
	get := func(b *meter.Budget, path string) error {
		_, _, err := r.do(meter.WithBudget(context.Background(), b), "GET", "http://api.example.com"+path, "")
		return err
	}
	spent := func(want1, want2, want int64) {
		t.Helper()
		if one.Spent() != want1 || two.Spent() != want2 || whole.Spent() != want {
			t.Fatalf("spent %d and %d, %d in all; want %d and %d, %d", one.Spent(), two.Spent(), whole.Spent(), want1, want2, want)
		}
	}
	for _, step := range []struct {
		budget *meter.Budget
		path   string
		err    error
	}{
		{one, "/v1/items:stats", nil},             // 5
		{two, "/v1/both", nil},                    // 3
		{two, "/v1/items:stats", meter.ErrBudget}, // would be 13
		{one, "/v1/items", nil},                   // 9
		{one, "/v1/nothing", quota.ErrUnpriced},
	} {
		if err := get(step.budget, step.path); !errors.Is(err, step.err) {
			t.Fatalf("%s: %v, want %v", step.path, err, step.err)
		}
	}
	spent(6, 3, 9)
	if err := r.ledger.BlockFor(t.Context(), quota.Pool{Upstream: "api", Name: "units"}, 3600e9, "shut"); err != nil {
		t.Fatal(err)
	}
	if err := get(one, "/v1/items"); !errors.Is(err, quota.ErrBlocked) {
		t.Fatalf("got %v, want a block", err)
	}
	spent(6, 3, 9) // what was refused was not spent
	if diff := cmp.Diff(map[string]int64{"api/units": 8, "api/searches": 1}, whole.Pools()); diff != "" {
		t.Errorf("the pools of the budget (-want +got):\n%s", diff)
	}
}

// TestBudgetCountsActualCosts: once an answer has ended, the budget counts what the call has
// cost, also if that is more than its estimate. The next call sees it.
func TestBudgetCountsActualCosts(t *testing.T) {
	r := newModel(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/v1/things/free" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, `{"usage":{"input":1,"output":`+req.Header.Get("X-Output")+`}}`)
	}, nil)
	whole := meter.NewBudget(3000)
	part := whole.Part()
	ctx := meter.WithBudget(t.Context(), part)
	call := func(verb, path, output string) error {
		req, err := http.NewRequestWithContext(ctx, verb, "http://model.example.com"+path, strings.NewReader(`{"max_tokens":900}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Output", output)
		resp, err := r.client.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	}
	for i := range 10 { // 906 each by their estimates
		if err := call("POST", "/v1/messages", "3"); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
	if err := call("GET", "/v1/things/free", ""); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if part.Spent() != 50 || whole.Spent() != 50 {
		t.Errorf("%d and %d units are spent, want 50", part.Spent(), whole.Spent())
	}
	if err := call("POST", "/v1/messages", "2800"); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if err := call("POST", "/v1/messages", "3"); !errors.Is(err, meter.ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	r.flush()
	if whole.Spent() != 2852 {
		t.Errorf("%d units are spent, want 2852", whole.Spent())
	}
	var ofPools int64
	for _, n := range whole.Pools() {
		ofPools += n
	}
	if ofPools != 2852 {
		t.Errorf("the pools have %d units, want 2852: %v", ofPools, whole.Pools())
	}
}

// TestBudgetCountsNoSlots: a slot comes back when its call ends, so a budget counts the units
// beside it alone. The ledger's spend does so, too.
func TestBudgetCountsNoSlots(t *testing.T) {
	r := startFew(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"usage":7}`) })
	b := meter.NewBudget(7)
	ctx := meter.WithBudget(t.Context(), b)
	if _, _, err := r.do(ctx, "GET", "http://api.example.com/get", ""); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.do(ctx, "POST", "http://api.example.com/chat", "")
	var over *meter.BudgetError
	if !errors.As(err, &over) || over.Units != 100 || over.Spent != 0 {
		t.Errorf("a call of 100 units and a slot, after one of a slot alone: %v", err)
	}
}
