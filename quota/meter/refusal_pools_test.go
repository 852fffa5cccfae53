package meter_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
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

// A rule may name a pool with limits per key that the call does not charge. Nothing says
// that the default key is meant.
func TestARefusalShutsNoKeyThatTheCallDoesNotName(t *testing.T) {
	const text = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [{status: 429, pools: [models, users, tokens], for: 1m}]
    pools:
      models: {quota: 10, windows: [{per: 1m}], by: {header: X-Model, default: other}}
      users: {quota: 10, windows: [{per: 1m}], by: {query: user}}
      tokens: {quota: 10, windows: [{per: 1m}], by: {body: model, default: other}}
      calls: {quota: 10, windows: [{per: 1m}]}
    methods:
      ask: {route: POST /ask, charge: {models: 1, tokens: 1}}
      list: {route: POST /list, charge: {calls: 1}}
`
	for _, c := range []struct {
		name, url, model string
		shut             []string
	}{
		{"no key", "/list", "", nil},
		{"the keys of the call", "/list?user=me", "m", []string{"models:m", "users:me"}},
		{"the default key, which the call charges", "/ask", "", []string{"models:other", "tokens:other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := priced(t, text, answering(429, ""))
			req, _ := http.NewRequest("POST", "http://api.example.com"+c.url, strings.NewReader("{}"))
			if c.model != "" {
				req.Header.Set("X-Model", c.model)
			}
			if _, _, err := r.send(req); err != nil {
				t.Fatal(err)
			}
			all, err := r.ledger.View().Usage(t.Context(), "api", "")
			if err != nil {
				t.Fatal(err)
			}
			var shut []string
			for _, u := range all {
				if !u.Blocked.IsZero() {
					shut = append(shut, strings.TrimPrefix(u.Pool.String(), "api/"))
				}
			}
			if slices.Sort(shut); !slices.Equal(shut, c.shut) {
				t.Errorf("shut: %q, want %q", shut, c.shut)
			}
		})
	}
}
