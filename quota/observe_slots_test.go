package quota_test

import (
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// In mode observe, a call with a slot that is let through is settled like any other.
func TestObservedCallsWithSlotsAreSettled(t *testing.T) {
	l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  api:
    mode: observe
    pools:
      at_once: {windows: [{in_flight: 1, ttl: 1m}]}
      tokens:  {quota: 100, windows: [{per: 1h}]}
    methods:
      ask: {charge: {at_once: 1, tokens: 10}}
`), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := l.Reserve(t.Context(), quota.Call{Method: "ask"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Settle(t.Context(), quota.Units{"tokens": 4}); err != nil {
			t.Error(err)
		}
	}
	all, err := l.View().Usage(t.Context(), "", "")
	if err != nil || all[1].Windows[0].Used != 8 {
		t.Errorf("%+v %v, want 8 tokens", all, err)
	}
}
