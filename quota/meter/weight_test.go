package meter_test

import (
	"io"
	"net/http"
	"testing"
)

// What an answer tells is multiplied by what the request says, here by its path.
func TestWeights(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, usage) }, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  model:
    hosts: [model.example.com]
    pools:
      late:   {quota: 100000, windows: [{per: 10m}]}
      output: {quota: 100000, windows: [{per: 10m}]}
    methods:
      ask:
        route: "POST /v1/{model}/ask"
        charge:
          output:
            estimate: {body: max_tokens, default: 100}
            actual: [{body: usage.input}, {body: usage.output, weight: {path: model, match: '^(large|new)-', cases: {large: 5, new: 0}, default: 1}}]
          late: {estimate: {body: max_tokens, default: 100, weight: {path: model, cases: {large-1: 3}, default: 2}}}
`, r.clock)
	r.meter(nil)
	const host = "http://model.example.com/v1/"
	r.post(host+"large-1/ask", `{"max_tokens":10}`)
	r.spent(map[string]int64{"output": 12 + 5*812, "late": 30})
	r.post(host+"small-1/ask", "{}")
	r.spent(map[string]int64{"output": 12 + 5*812 + 12 + 812, "late": 30 + 200})
	r.post(host+"new-1/ask", "{}")
	r.spent(map[string]int64{"output": 12 + 5*812 + 12 + 812 + 12, "late": 30 + 400})
}
