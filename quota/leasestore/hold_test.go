package leasestore_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/leasestore"
)

// A hold is a block of its own: its units count from when it was made, not from when some
// block was taken. When it takes them again, it takes no block above the limit.
func TestHold(t *testing.T) {
	b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    hosts: [a.example.com]
    pools: {units: {quota: 40, windows: [{per: 1m, precision: 10s}], lease: {life: 2s, most: 20}}}
    methods: {a.get: {route: GET /a, pool: units, cost: 1}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	store := leasestore.Eager(r.ledger, &leasestore.Options{Clock: r.clock}, 10)
	ledger, err := quota.New(b, store, &quota.Options{Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	call := quota.Call{Method: "a.get"}
	for range 2 { // the second takes a block of 10
		if _, err := ledger.Reserve(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	asked := r.ledger.asked.Load()
	hold, err := ledger.Hold(t.Context(), call, 5)
	if err != nil || r.ledger.asked.Load() != asked+1 {
		t.Fatalf("hold: %v; the ledger was asked %d times, want once", err, r.ledger.asked.Load()-asked)
	}
	ctx := hold.Context(t.Context())
	draw := func() {
		t.Helper()
		if _, err := ledger.Reserve(ctx, call); err != nil {
			t.Fatal(err)
		}
	}
	draw()
	r.clock.Advance(11 * time.Second) // its bucket has ended: it takes the other four again
	draw()
	draw()
	if err := hold.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	usage, err := ledger.View().Usage(t.Context(), "api", "")
	if err != nil || usage[0].Windows[0].Used != 5 {
		t.Errorf("usage is %+v (%v), want 5 units", usage, err)
	}
}
