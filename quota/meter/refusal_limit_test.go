package meter_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
)

// limited reads the limit that a refusal names, as Google's do.
const limited = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals:
      - status: 429
        body: "\"1/d"
        until: reset
        limit: {body: error.details.0.metadata.quota_limit_value|error.details.1.metadata.quota_limit_value}
      - {status: 429, for: 10s}
    pools:
      units: {quota: 100, headroom: 10, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}
      grown: {quota: 100, headroom: 10, limit: learn, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}
    methods:
      items.list: {route: GET /v1/items, pool: units, cost: 40}
      items.grown: {route: GET /v1/grown, pool: grown, cost: 40}
`

// A refusal that names another limit than the price book tells the limit, which holds at
// once: a smaller one always, and a larger one where the price book says so.
func TestARefusalTellsTheLimit(t *testing.T) {
	info := func(unit, value string) string {
		return `{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "metadata": {"quota_unit": "` + unit + `", "quota_limit_value": "` + value + `"}}`
	}
	help := `{"@type": "type.googleapis.com/google.rpc.Help", "links": []}`
	for _, c := range []struct {
		name, path, details string
		granted             int // calls of 40 after it
		shown               bool
		said                string
	}{
		{"a smaller one", "items", info("1/d/{project}", "60"), 0, true, "limit=60 quota=100"},
		{"beside other details", "items", help + "," + info("1/d/{project}", "60"), 0, true, "limit=60 quota=100"},
		{"of a minute", "items", info("1/min/{project}", "60"), 1, false, ""},
		{"the same", "items", info("1/d/{project}", "100"), 1, true, ""},
		{"unlimited", "items", info("1/d/{project}", "-1"), 1, false, ""},
		{"none", "items", info("1/d/{project}", ""), 1, false, ""},
		{"a larger one", "items", info("1/d/{project}", "200"), 1, true, ""},
		{"a larger one that is learnt", "grown", info("1/d/{project}", "200"), 3, true, "limit=200 quota=100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := priced(t, limited, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusTooManyRequests)
				io.WriteString(w, `{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": [`+c.details+`]}}`)
			})
			if _, _, err := r.do(t.Context(), "GET", "http://api.example.com/v1/"+c.path, ""); err != nil {
				t.Fatal(err)
			}
			pool := map[string]string{"items": "units", "grown": "grown"}[c.path]
			if err := r.ledger.Admin().Unblock(t.Context(), quota.Pool{Upstream: "api", Name: pool}); err != nil {
				t.Fatal(err)
			}
			granted := 0
			for range 5 {
				_, err := r.ledger.Reserve(t.Context(), quota.Call{Upstream: "api", Method: "items." + map[string]string{"units": "list", "grown": "grown"}[pool]})
				switch {
				case err == nil:
					granted++
				case !errors.Is(err, quota.ErrRefused):
					t.Fatal(err)
				}
			}
			if granted != c.granted {
				t.Errorf("%d calls of 40 were granted beside one, want %d", granted, c.granted)
			}
			if shown := strings.Contains(r.log.String(), "upstream_limit="); shown != c.shown {
				t.Errorf("log:\n%s\nshows the limit: %t, want %t", r.log, shown, c.shown)
			}
			if said := strings.Contains(r.log.String(), "another limit"); said != (c.said != "") || !strings.Contains(r.log.String(), c.said) {
				t.Errorf("log:\n%s\nwant %q", r.log, c.said)
			}
		})
	}
}
