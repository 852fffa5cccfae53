package meter_test

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// A call is settled to the time that it took. The clock moves only while the server answers.
func TestPriceByTime(t *testing.T) {
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		r.clock.Advance(700 * time.Millisecond)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		r.clock.Advance(50 * time.Millisecond)
		io.WriteString(w, "no JSON")
	}, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  model:
    hosts: [model.example.com]
    pools:
      work:    {quota: 10000, windows: [{per: 1m}]}
      bounded: {quota: 10000, windows: [{per: 1m}]}
    methods:
      ask:
        route: POST /v1/ask
        charge:
          work: {estimate: 200, actual: {time: call}}
          bounded: {estimate: 200, actual: {time: call, max: 500}}
`, r.clock)
	r.meter(nil)
	r.post("http://model.example.com/v1/ask", "{}")
	r.spent(map[string]int64{"work": 750, "bounded": 500})
}
