package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// theKey is the key of the upstream, and theToken that of the program.
const (
	theKey   = "sk-live+a/key=of the tests 4711"
	theToken = "0123456789abcdef0123456789abcdef"
)

var (
	keysOfAPI = map[string]meter.KeySource{"api": meter.Key("Bearer " + theKey), "api@team": meter.Key("Bearer key-of-the-team"), "shop@*": meter.Key("key-of-shops")}
	keysOfOrg = map[string]meter.KeySource{"org": meter.Key("key-of-default"), "org@team": meter.Key("key-of-team")}
)

// rig is a proxy in front of an upstream.
type rig struct {
	t        *testing.T
	ledger   *quota.Ledger
	handler  *Handler
	server   *httptest.Server // the proxy
	upstream *httptest.Server
	log      *buffer

	mu   sync.Mutex
	last *http.Request // that the upstream got
	body string
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// ownPrices are those of own.
const ownPrices = `    api_key: {header: Authorization, pass: true}
    pools: {units: {quota: 1000, windows: [{per: day}]}}
    methods: {list: {route: GET /v1/items, pool: units, cost: 2}}
`

// books is the price book of the rig. The upstream is at HOST.
const books = `
revision: 1
upstreams:
  api:
    hosts: [HOST, "localhost:1", "other.test"]
    redirects: [files.test]
    api_key: {header: X-Api-Key, query: key}
    error_format: FORMAT
    accounts: {default: {}, team: {}}
    resumable: upload_id
    refusals: [{status: 429, until: retry-after}]
    classes: {manual: {use_headroom: true}}
    pools: {units: {quota: 1000, headroom: 100, windows: [{per: day}]}, few: {quota: 1, windows: [{per: 1s}]}}
    default: {"*": {pool: units, cost: 7}}
    methods:
      list: {route: [GET /v1/items, HEAD /v1/items], pool: units, cost: 2}
      named: {route: GET /api/items, pool: units, cost: 1}
      get: {route: "GET /v1/items/{id}", pool: units, cost: 1}
      put: {route: PUT /v1/items, pool: units, cost: 1}
      post: {route: POST /v1/items, pool: units, cost: {estimate: {bytes: body, per: 1000, default: 1}}}
      few: {route: GET /v1/few, pool: few, cost: 1}
  org:
    hosts: [org.test]
    account: {header: X-Org}
    accounts: {default: {}, team: {}}
    api_key: {header: X-Org-Key}
    pools: {units: {quota: 1000000, windows: [{per: day}]}}
    methods: {list: {route: GET /v1/items, pool: units, cost: 2}}
  billed:
    hosts: [billed.test]
    account: {header: X-Goog-User-Project}
    accounts: {default: {}, team: {}}
    api_key: {header: X-Billed-Key}
    pools: {units: {quota: 1000, windows: [{per: day}]}}
    methods: {list: {route: GET /v1/items, pool: units, cost: 2}}
  watched:
    hosts: [watched.test]
    mode: observe
    api_key: {header: X-Watched-Key}
    pools: {units: {quota: 1000, windows: [{per: day}]}}
    methods: {post: {route: POST /v1/items, pool: units, cost: 2}, any: {route: "POST /v1/all/{rest...}", pool: units, cost: 2}}
  own:
    hosts: ["localhost:PORT"]
` + ownPrices + `
  shop:
    hosts: ["*.shop.test/admin/"]
    accounts: any
    account: {host: 1}
    api_key: {header: X-Shop-Token}
    pools: {units: {quota: 1000, windows: [{per: day}]}}
    methods: {list: {route: GET /admin/items, pool: units, cost: 2}}
`

type rigOptions struct {
	format string
	grants []Grant
	clock  quota.Clock
	change func(*Options)
	serve  http.HandlerFunc // nil: an answer of {}
	asks   bool             // own has prices and keys in the body
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, log: &buffer{}}
	r.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.last = req
		r.mu.Unlock()
		if o.serve != nil {
			o.serve(w, req)
			return
		}
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.body = string(body)
		r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(r.upstream.Close)
	host := strings.TrimPrefix(r.upstream.URL, "http://")
	_, port, _ := strings.Cut(host, ":")
	format := o.format
	if format == "" {
		format = "problem"
	}
	text := books
	if o.asks {
		text = strings.Replace(text, ownPrices, asks, 1)
	}
	costs, err := book.Parse("costs.yaml", []byte(strings.NewReplacer("HOST", host, "PORT", port, "FORMAT", format).Replace(text)), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		t.Fatal(err)
	}
	if o.clock == nil {
		o.clock = quota.SystemClock{}
	}
	if r.ledger, err = quota.New(costs, memstore.New(&memstore.Options{Clock: o.clock}), &quota.Options{Clock: o.clock}); err != nil {
		t.Fatal(err)
	}
	if o.grants == nil {
		o.grants = []Grant{{Upstreams: []string{"api", "own", "shop"}, Classes: []string{"manual"}, Accounts: []string{"default", "team", "mine"}}}
	}
	options := Options{
		Clock: o.clock, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Keys: keysOfAPI,
	}
	if o.change != nil {
		o.change(&options)
	}
	if r.handler, err = New(r.ledger, tokensOf(t, o.grants...), &options); err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewServer(r.handler)
	t.Cleanup(r.server.Close)
	return r
}

// Grant is what the bearer of a token may do.
type Grant = access.Grant

// tokensOf returns tokens etl, etl2 and so on, of which the first is theToken.
func tokensOf(t *testing.T, grants ...Grant) (all []*access.Token) {
	t.Helper()
	for i, g := range grants {
		name, text := "etl", theToken
		if i > 0 {
			name, text = fmt.Sprintf("etl%d", i+1), strings.Repeat(fmt.Sprint(i), 32)
		}
		w, err := access.New(name, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w.Bound(&g))
	}
	return all
}

// answered is an answer of the proxy, read.
type answered struct {
	*http.Response
	body string
}

// request returns a request to the proxy, with the token.
func (r *rig) request(verb, path string, body io.Reader, header ...string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), verb, r.server.URL+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", theToken)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// http2 returns a transport that speaks HTTP/2 with the proxy.
func (r *rig) http2() http.RoundTripper {
	s := httptest.NewUnstartedServer(r.handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	r.t.Cleanup(s.Close)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		req.URL, _ = req.URL.Parse(s.URL + req.URL.RequestURI())
		return s.Client().Transport.RoundTrip(req)
	})
}

// call makes a call of a program.
func (r *rig) call(verb, path string, header ...string) answered {
	r.t.Helper()
	return r.send(r.request(verb, path, nil, header...))
}

var still = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (r *rig) send(req *http.Request) answered {
	r.t.Helper()
	resp, err := still.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answered{resp, string(body)}
}

// seen returns the last request that the upstream got, and forgets it.
func (r *rig) seen() *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last
	r.last = nil
	return last
}

// turnedAway returns how many requests the metrics say were turned away for a reason. Ask
// once: the metrics are kept for a second.
func (r *rig) turnedAway(reason string) (calls int) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.handler.set.Metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(r.t.Context(), "GET", "/metrics", nil))
	_, after, _ := strings.Cut(w.Body.String(), `ingestor_requests_turned_away_total{reason="`+reason+`"} `)
	if _, err := fmt.Sscan(after, &calls); err != nil {
		r.t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	return calls
}

// spent returns the units of a pool that were spent for a job.
func (r *rig) spent(job string) (units int64) {
	r.t.Helper()
	if err := r.handler.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	all, err := r.ledger.View().Spend(context.Background(), quota.SpendQuery{Upstream: "api"})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range all {
		if s.Labels.Job == job {
			units += s.Units
		}
	}
	return units
}
