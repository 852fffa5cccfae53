package meter_test

import (
	"context"
	"errors"
	"testing"

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
}
