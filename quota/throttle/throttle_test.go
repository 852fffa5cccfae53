package throttle_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// book has limits that a few requests reach.
const prices = `
revision: 1
families:
  client:
    quota: 4
    windows: [{per: 60s, algorithm: counter}]
    keys:
      203.0.113.7: {quota: 5}
      "2001:db8:7:1::/64": {quota: 6}
  search: {windows: [{per: 1s, quota: 1, precision: 1s}, {per: 1m, quota: 2, precision: 1s}]}
  own: {quota: 3, windows: [{per: 60s}], keys: {a: {quota: 2}}}
`

func parse(t testing.TB, text string) *quota.Book {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rig is a throttle on a clock that is moved.
type rig struct {
	testing.TB
	clock   *quota.SimClock
	ledger  *quota.Ledger
	limiter *throttle.Throttle
	handler http.Handler
	served  int
}

func newRig(t testing.TB, o *throttle.Options) *rig {
	t.Helper()
	r := &rig{TB: t, clock: quota.NewSimClock(start)}
	var err error
	r.ledger, err = quota.New(parse(t, prices), memstore.New(&memstore.Options{Clock: r.clock}), &quota.Options{Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	if r.limiter, err = throttle.New(r.ledger, o); err != nil {
		t.Fatal(err)
	}
	r.handler = r.limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.served++
		io.WriteString(w, "served")
	}))
	return r
}

// request is "GET /path" from an address, with headers "Name: value".
func request(line, from string, headers ...string) *http.Request {
	method, path, _ := strings.Cut(line, " ")
	req := httptest.NewRequest(method, path, nil)
	req.RemoteAddr = from
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	return req
}

// ask returns the status and what RateLimit says.
func (r *rig) ask(line, from string) string {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request(line, from))
	return strings.TrimSpace(http.StatusText(w.Code) + " " + strings.Join(w.Header()["Ratelimit"], ", "))
}

func (r *rig) want(want, line, from string) {
	r.Helper()
	if got := r.ask(line, from); got != want {
		r.Errorf("%s from %s: %s, want %s", line, from, got, want)
	}
}

func TestAnswers(t *testing.T) {
	r := newRig(t, nil)
	const from = "198.51.100.1:4711"
	r.want(`OK "client";r=3;t=120`, "GET /", from)
	r.clock.Advance(10 * time.Second)
	r.want(`OK "client";r=2;t=110`, "GET /", from)
	r.want(`OK "client";r=1;t=110`, "GET /", from)
	r.want(`OK "client";r=0;t=110`, "GET /", from)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request("GET /", from))
	if w.Code != http.StatusTooManyRequests || r.served != 4 {
		t.Errorf("status %d after %d served, want 429 after 4", w.Code, r.served)
	}
	want := http.Header{
		"Ratelimit-Policy": {`"client";q=4;w=60`},
		"Ratelimit":        {`"client";r=0;t=65`},
		"Retry-After":      {"65"},
		"Content-Type":     {"application/problem+json"},
		"Cache-Control":    {"no-store"},
	}
	if d := cmp.Diff(want, w.Header()); d != "" {
		t.Error(d)
	}
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{
		"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title":             "Request cannot be satisfied as assigned quota has been exceeded",
		"status":            429.0,
		"detail":            "at most 4 in 1m counter; come again after the seconds in Retry-After",
		"violated-policies": []any{"client"},
	}, body); d != "" {
		t.Error(d)
	}
	r.clock.Advance(65*time.Second - time.Millisecond)
	r.want(`Too Many Requests "client";r=0;t=1`, "GET /", from)
	r.clock.Advance(time.Millisecond)
	r.want(`OK "client";r=0;t=105`, "GET /", from)
	r.want(`OK "client";r=3;t=105`, "GET /", "198.51.100.2:1")
}

func TestRoutes(t *testing.T) {
	search := []throttle.Limit{{Family: "client"}, {Family: "search", By: []throttle.Part{throttle.Address, throttle.Route}}}
	r := newRig(t, &throttle.Options{Routes: map[string][]throttle.Limit{
		"GET /search":       search,
		"GET /search/{id}":  search,
		"GET /livez":        nil,
		"GET /costly/{all}": {{Units: 3}},
	}})
	const from = "198.51.100.1:4711"
	r.want(`OK "client";r=3;t=120, "search-1s";r=0;t=2`, "GET /search", from)
	r.want(`Too Many Requests "client";r=2;t=120, "search-1s";r=0;t=2`, "HEAD /search?q=x", from)
	r.want(`OK "client";r=1;t=120, "search-1s";r=0;t=2`, "GET /search/7", from) // another route, another page
	r.want(`OK`, "GET /livez", from)
	r.want(`OK "client";r=0;t=120`, "POST /search", from)
	r.want(`Too Many Requests "client";r=0;t=75`, "GET /livez/", from)
	r.want(`OK "client";r=1;t=120`, "GET /costly/x", "198.51.100.2:1")
	r.want(`Too Many Requests "client";r=1;t=101`, "GET /costly/x", "198.51.100.2:1")
	r.want(`OK "client";r=0;t=120`, "GET /", "198.51.100.2:1") // what was refused has cost nothing
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request("GET /search", "198.51.100.3:1"))
	if got, want := w.Header().Get("RateLimit-Policy"), `"client";q=4;w=60, "search-1s";q=1;w=1, "search-1m";q=2;w=60`; got != want {
		t.Errorf("RateLimit-Policy: %s, want %s", got, want)
	}
	// A client of ours understands what our server says.
	client, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  us:
    pools: {client: {windows: [{per: 1m, quota: 4}]}, search: {windows: [{per: 1s, quota: 1}, {per: 1m, quota: 2}]}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, l := range content.Limits(w.Header()) {
		pool, window := l.In(client.Upstreams["us"], nil)
		read = append(read, fmt.Sprint(pool, " ", l.Quota, " in ", window.Length()))
	}
	if got, want := strings.Join(read, ", "), "client 4 in 1m0s, search 1 in 1s, search 2 in 1m0s"; got != want {
		t.Errorf("a client reads %s, want %s", got, want)
	}
}

// However a path is written, it is the route that a ServeMux would serve for it.
func TestOddRequests(t *testing.T) {
	r := newRig(t, &throttle.Options{Routes: map[string][]throttle.Limit{"GET /a/b": {{Family: "own"}}}})
	for i, path := range []string{"/a/b", "//a/b", "/a/../a/b", "/a/b?x=%zz", "/%61/b"} {
		from := fmt.Sprintf("203.0.113.%d:1", 100+i)
		r.want(`OK "own";r=2;t=61`, "GET "+path, from)
	}
	for i, line := range []string{"OPTIONS *", "GET /a%2Fb", "GET /A/B", "BREW /a/b", "GET http://elsewhere/a/c"} {
		from := fmt.Sprintf("203.0.113.%d:1", 200+i)
		r.want(`OK "client";r=3;t=120`, line, from)
	}
}

// Inventing tokens gains a page more than there may be, and costs others nothing.
func TestInventedTokens(t *testing.T) {
	clock := quota.NewSimClock(start)
	text := "revision: 1\nfamilies: {client: {quota: 4, windows: [{per: 60s}], max_keys: 10}}"
	ledger, err := quota.New(parse(t, text), memstore.New(&memstore.Options{Clock: clock}), nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, &throttle.Options{Limits: []throttle.Limit{{By: []throttle.Part{throttle.Token}}}})
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	h := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	ask := func(token string) {
		h.ServeHTTP(httptest.NewRecorder(), request("GET /", "203.0.113.7:1", "Authorization: Bearer "+token))
	}
	ask("known")
	for i := range 1000 {
		ask(fmt.Sprint("invented", i))
	}
	if want := 1 + 9 + 4; served != want {
		t.Errorf("%d requests are served, want %d", served, want)
	}
	served = 0
	for range 10 {
		ask("known")
	}
	if served != 3 {
		t.Errorf("%d more requests of one who was there before are served, want 3", served)
	}
}

// TestRetryAfterOfSeveralLimits: what one limit has counted before another one refuses
// may have been its last, so to come again when the other has room would be too early.
func TestRetryAfterOfSeveralLimits(t *testing.T) {
	r := newRig(t, &throttle.Options{Limits: []throttle.Limit{{}, {Family: "search"}}})
	for asked := 1; asked <= 4; asked++ {
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, request("GET /", "198.51.100.1:4711"))
		if w.Code != http.StatusTooManyRequests {
			continue
		}
		after, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil {
			t.Fatal(err)
		}
		if left := 4 - asked; left > 0 && after > 10 {
			t.Errorf("with %d left of the first limit it is to come again after %d s", left, after)
		}
		if asked == 4 {
			r.clock.Advance(time.Duration(after) * time.Second)
			r.want(`OK "client";r=3;t=120, "search-1s";r=0;t=2`, "GET /", "198.51.100.1:4711")
		}
	}
}
