package quota_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// An account with a call in flight makes no room for another account: on the page that the
// others share, it would have its slots twice.
func TestAnAccountWithACallInFlightKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := quota.New(mustParse(t, `
revision: 1
upstreams:
  llm:
    accounts: any
    max_accounts: 1
    pools: {calls: {windows: [{in_flight: 1, ttl: 1m}]}, units: {quota: 100, windows: [{per: 1m}]}}
    methods: {ask: {charge: {calls: 1, units: 1}}}
`), memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		long := must(t, l, quota.Call{Method: "ask", Account: "a"})
		time.Sleep(10 * time.Minute)
		other := must(t, l, quota.Call{Method: "ask", Account: "b"})
		if err := other.Done(t.Context()); err != nil {
			t.Fatal(err)
		}
		again, err := l.Reserve(t.Context(), quota.Call{Method: "ask", Account: "a"})
		if !errors.Is(err, quota.ErrRefused) {
			t.Errorf("a second call of a: %v, want a refusal: it has one in flight", err)
		}
		if err == nil {
			t.Errorf("it is on the page of %s", again.Pool)
			_ = again.Done(t.Context())
		}
		if err := long.Done(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
