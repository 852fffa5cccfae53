package meter_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// book is an upstream of api.example.com.
const prices = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com, "api.example.org:8443", "usual.example.com:80"]
    api_key: {header: X-Api-Key, query: key}
    resumable: upload_id
    refusals:
      - {status: 401, credential: true}
      - {status: 403, reason: [dailyLimit, quotaExceeded], until: reset}
      - {status: 403, header: {x-ratelimit-remaining: 0}, until: x-ratelimit-reset}
      - {status: [403, 429], body: too fast, for: 30s}
      - {status: 429, for: 10s}
    classes: {backfill: {keep_free: 30%}}
    accounts: {default: {}, staging: {}}
    pools:
      units: {quota: 100, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}]}
      searches: {quota: 3, windows: [{per: 10m}]}
    methods:
      items.list: {route: GET /v1/items, pool: units, cost: 1}
      items.get: {route: "GET /v1/items/{id}", pool: units, cost: 1}
      items.stats: {route: "GET /v1/items:stats", pool: units, cost: 5}
      items.insert: {route: [POST /v1/items, POST /upload/v1/items], pool: units, cost: 40}
      items.both: {route: GET /v1/both, charge: {units: 2, searches: 1}}
      search.list: {route: GET /v1/search, pool: searches, cost: 1}
  other:
    hosts: [other.example.com]
    unpriced: admit
    pools: {units: {quota: 100, windows: [{per: 24h}]}}
    methods: {things: {route: GET /things, pool: units, cost: 1}}
`

// noon is in the middle of a day in California.
var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

var discard = slog.New(slog.DiscardHandler)

// rig is a ledger on a clock that is moved, a server that every host leads to, and
// a client that is metered.
type rig struct {
	t      *testing.T
	clock  *quota.SimClock
	ledger *quota.Ledger
	server *httptest.Server
	base   *http.Transport
	client *http.Client
	log    *bytes.Buffer
}

// newRig starts one; o may be nil, and its Base is filled in.
func newRig(t *testing.T, handler http.HandlerFunc, o *meter.Options) *rig {
	t.Helper()
	if handler == nil {
		handler = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") }
	}
	r := &rig{t: t, clock: quota.NewSimClock(noon), server: httptest.NewServer(handler), log: &bytes.Buffer{}}
	t.Cleanup(r.server.Close)
	r.ledger = newLedger(t, prices, r.clock)
	r.base = &http.Transport{}
	r.dial(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, r.server.Listener.Addr().String())
	})
	t.Cleanup(r.base.CloseIdleConnections)
	r.meter(o)
	return r
}

// dial sets how connections are made, also those of https: the server needs no TLS.
func (r *rig) dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	r.base.DialContext, r.base.DialTLSContext = dial, dial
}

// meter makes the client's transport anew.
func (r *rig) meter(o *meter.Options) {
	var set meter.Options
	if o != nil {
		set = *o
	}
	if set.Base == nil {
		set.Base = r.base
	}
	if set.Logger == nil {
		set.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	r.client = &http.Client{Transport: newTransport(r.t, r.ledger, &set)}
}

func newTransport(t testing.TB, l *quota.Ledger, o *meter.Options) *meter.Transport {
	t.Helper()
	m, err := meter.New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newLedger(t testing.TB, text string, clock quota.Clock) *quota.Ledger {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quota.New(b, newStore(clock), &quota.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newStore(clock quota.Clock) quota.Store { return memstore.New(&memstore.Options{Clock: clock}) }

// do sends a request and reads all of its answer.
func (r *rig) do(ctx context.Context, verb, url, body string) (int, string, error) {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, verb, url, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(req)
}

func (r *rig) send(req *http.Request) (int, string, error) {
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// bare sends a request without an http.Client around the transport.
func (r *rig) bare(req *http.Request) error {
	resp, err := r.client.Transport.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// get is a plain call that must succeed.
func (r *rig) get(url string) {
	r.t.Helper()
	if status, _, err := r.do(r.t.Context(), "GET", url, ""); err != nil || status != http.StatusOK {
		r.t.Errorf("GET %s: %d, %v", url, status, err)
	}
}

// hold reserves a method a number of times.
func (r *rig) hold(method string, n int) *quota.Hold {
	r.t.Helper()
	hold, err := r.ledger.Hold(r.t.Context(), quota.Call{Upstream: "api", Method: method}, n)
	if err != nil {
		r.t.Fatal(err)
	}
	return hold
}

// used is what is charged to a pool.
func (r *rig) used(pool string) int64 {
	r.t.Helper()
	u := r.usage(pool)
	return u.Windows[0].Used
}

func (r *rig) usage(name string) quota.Usage {
	r.t.Helper()
	pool, err := quota.ParsePool(name)
	if err != nil {
		r.t.Fatal(err)
	}
	all, err := r.ledger.View().Usage(context.Background(), pool.Upstream, pool.Account)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool == pool {
			return u
		}
	}
	r.t.Fatalf("there is no pool %s", name)
	return quota.Usage{}
}

// charged checks what is used of api/units.
func (r *rig) charged(want int64) {
	r.t.Helper()
	if got := r.used("api/units"); got != want {
		r.t.Errorf("%d units charged, want %d", got, want)
	}
}

// refused checks that an error is the ledger's refusal, and says that it is nothing
// to repeat blindly.
func refused(t *testing.T, err error) *quota.RefusedError {
	t.Helper()
	var e *quota.RefusedError
	if !errors.As(err, &e) || !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("error %v is no refusal", err)
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%v says that it is a timeout", err)
	}
	var temporary interface{ Temporary() bool }
	if errors.As(err, &temporary) && temporary.Temporary() {
		t.Errorf("%v says that it is temporary", err)
	}
	return e
}
