package quota_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// TestWaitingUsesTheLimit: callers that always wait for more get nearly all that the windows
// grant. They lose what they wait beyond that.
func TestWaitingUsesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const windows, units, per = 200, 10, 20 * time.Second
		b, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    pools: {units: {quota: 10, windows: [{per: 20s, precision: 100ms}]}}
    methods: {get: {pool: units, cost: 1}}
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := quota.New(b, memstore.New(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range windows*units + 1 { // the last one is in the next window
			if _, err := l.Wait(t.Context(), quota.Call{Upstream: "api", Method: "get"}, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if used := windows * per.Seconds() / time.Since(begun).Seconds(); used < 0.98 {
			t.Errorf("%.3f of the limit is used, want 0.98 or more", used)
		}
	})
}
