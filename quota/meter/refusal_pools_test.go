package meter_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// hub counts each resource by itself, and all calls together.
const hub = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals:
      - {status: 403, body: secondary, pools: points, for: 1m}
      - {status: 403, header: {x-ratelimit-remaining: 0}, pools: [search], until: x-ratelimit-reset}
    pools:
      core: {quota: 5000, windows: [{per: 1h}]}
      search: {quota: 30, windows: [{per: 1m}]}
      points: {quota: 900, windows: [{per: 1m}]}
    methods:
      repos.get: {route: GET /repos, charge: {core: 1, points: 1}}
      search.code: {route: GET /search, charge: {search: 1, points: 1}}
`

// priced makes a rig with a price book of its own.
func priced(t *testing.T, text string, handler http.HandlerFunc) *rig {
	t.Helper()
	r := newRig(t, handler, nil)
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ledger.SetBook(b); err != nil {
		t.Fatal(err)
	}
	return r
}

// A refusal for one resource leaves the pools open that other calls need.
func TestARefusalShutsOnlyThePoolsThatItsRuleNames(t *testing.T) {
	for _, c := range []struct {
		name, body, shut string
		until            time.Duration
	}{
		{"of a resource", "", "search", 50 * time.Minute},
		{"of all calls", "a secondary rate limit", "points", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := priced(t, hub, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-RateLimit-Remaining", "0")
				w.Header().Set("X-RateLimit-Reset", "3000")
				w.WriteHeader(http.StatusForbidden)
				io.WriteString(w, c.body)
			})
			if _, _, err := r.do(t.Context(), "GET", "http://api.example.com/search", ""); err != nil {
				t.Fatal(err)
			}
			for _, pool := range []string{"core", "search", "points"} {
				want := time.Time{}
				if pool == c.shut {
					want = noon.Add(c.until)
				}
				if got := r.usage("api/" + pool).Blocked; !got.Equal(want) {
					t.Errorf("%s is shut until %s, want %s", pool, got, want)
				}
			}
			_, _, err := r.do(t.Context(), "GET", "http://api.example.com/repos", "")
			if refused := errors.Is(err, quota.ErrBlocked); refused != (c.shut == "points") {
				t.Errorf("another resource: %v", err)
			}
		})
	}
}
