package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/window"
)

// The remaining members keep their used units when many other members are forgotten.
func TestFewAreLeftOfMany(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	s := memstore.New(&memstore.Options{Clock: clock})
	spec, err := window.Spec{Per: 10 * time.Minute, Precision: time.Minute}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(key string, maxKeys int) int64 {
		t.Helper()
		v, err := s.Reserve(t.Context(), quota.Request{Charges: []quota.Charge{{
			Pool:  quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: key},
			Units: 1, Windows: []window.Limit{window.NewLimit(spec, 1000)}, Revision: 1, MaxKeys: maxKeys,
		}}})
		if err != nil || !v.Allowed || v.Overflow {
			t.Fatalf("%s: %+v %v", key, v, err)
		}
		return v.Used
	}
	const many, few = 10_000, 20
	key := func(i int) string { return fmt.Sprint("key", i) }
	reserve("listed", 0)
	for i := range many {
		reserve(key(i), many)
	}
	for minute := range int64(60) { // of which the last 10 or 11 count
		clock.Advance(time.Minute)
		for i := range few {
			if used, want := reserve(key(many/few*i), many), min(minute+2, 11); used != want {
				t.Fatalf("minute %d: key %d has used %d, want %d", minute, many/few*i, used, want)
			}
		}
		if used, want := reserve("listed", 0), min(minute+2, 11); used != want {
			t.Fatalf("minute %d: the key of the price book has used %d, want %d", minute, used, want)
		}
	}
	if known := memstore.Members(s); known != few+1 {
		t.Errorf("%d members are known, want %d", known, few+1)
	}
}
