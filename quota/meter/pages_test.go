package meter_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

const keyedPrices = `
revision: 1
upstreams:
  llm:
    hosts: [api.example.com]
    refusals: [{status: 429, for: 30s}]
    pools:
      tokens: {quota: 10, windows: [{per: 1m}], by: {header: X-Model, match: '^(.*?)-[0-9]+$', default: other}}
      users: {quota: 5, windows: [{per: 1m}], by: {query: user}}
    methods: {ask: {route: GET /ask, charge: {tokens: 4, users: 1}}}
`

// A request names the keys of the pools that its call charges. A refusal shuts these keys.
func TestARequestNamesTheKeys(t *testing.T) {
	status := http.StatusOK
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil)
	r.ledger = newLedger(t, keyedPrices, r.clock)
	r.meter(nil)
	ask := func(model, user string) error {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example.com/ask?user="+user, nil)
		if model != "" {
			req.Header.Set("X-Model", model)
		}
		resp, err := r.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for _, model := range []string{"a-1", "a-2", "b-1", "unnumbered", ""} {
		if err := ask(model, "me"); err != nil {
			t.Fatalf("%q: %v", model, err)
		}
	}
	var refused *quota.RefusedError
	if err := ask("a-3", "you"); !errors.As(err, &refused) || refused.Pool.String() != "llm/tokens:a" {
		t.Errorf("a third call of a: %v, want llm/tokens:a full", err)
	}
	if err := ask("c-1", "me"); !errors.As(err, &refused) || refused.Pool.String() != "llm/users:me" {
		t.Errorf("a sixth call of me: %v, want llm/users:me full", err)
	}
	if err := ask("c-1", ""); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("no user: %v, want bad input, as there is no default", err)
	}
	status = http.StatusTooManyRequests
	if err := ask("d-1", "you"); err != nil {
		t.Fatal(err)
	}
	status = http.StatusOK
	if err := ask("d-2", "they"); !errors.As(err, &refused) || !refused.Blocked || refused.Pool.String() != "llm/tokens:d" {
		t.Errorf("the model that was refused: %v, want it shut", err)
	}
	if err := ask("c-1", "they"); err != nil {
		t.Errorf("another model: %v", err)
	}
}
