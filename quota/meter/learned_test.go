package meter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/meter"
)

// A transport learns a limit that nobody publishes from the answers, and does not shut the pool.
func TestTransportLearnsALimit(t *testing.T) {
	var r *rig
	var passed []time.Time // in the last ten seconds
	accepted, refused, until := 0, 0, noon.Add(10*time.Minute)
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		now := r.clock.Now()
		for len(passed) > 0 && now.Sub(passed[0]) >= 10*time.Second {
			passed = passed[1:]
		}
		if len(passed) >= 50 {
			refused++
			w.Header().Set("Retry-After", "3600") // which is not true
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		accepted++
		passed = append(passed, now)
	}, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [{status: 429, for: 30s}]
    pools:
      calls: {quota: {learn: {from: 2, to: 1000}}}
    default: {'*': {pool: calls, cost: 1}}
`, r.clock)
	r.meter(&meter.Options{MaxWait: time.Hour})
	for r.clock.Now().Before(until) {
		if status, _, err := r.do(t.Context(), "GET", "https://api.example.com/things", ""); err != nil || status != 200 && status != 429 {
			t.Fatal(status, err)
		}
		r.clock.Advance(20 * time.Millisecond) // a call takes a while
	}
	if accepted < 2000 { // 3,000 fit
		t.Errorf("%d calls passed in ten minutes, want about 3,000", accepted)
	}
	if refused > accepted/25 {
		t.Errorf("%d calls were refused beside %d that passed", refused, accepted)
	}
	usage, err := r.ledger.View().Usage(t.Context(), "", "")
	if err != nil || usage[0].BlockedBy != "" || !usage[0].Blocked.IsZero() {
		t.Fatalf("the pool is shut: %+v %v", usage, err)
	}
	if k := usage[0].Learned; k.Rate < 3 || k.Rate > 7 || int(k.Refusals) != refused {
		t.Errorf("learned is %+v, want about 5 a second from %d refusals", k, refused)
	}
}
