package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// exhaust asks until a client is refused, and returns how many it was granted.
func (r *rig) exhaust(path string, headers ...string) int {
	r.Helper()
	for n := range 1000 {
		a := r.ask("GET", path, "", headers...)
		if a.StatusCode == http.StatusTooManyRequests {
			if a.Header.Get("Content-Type") != "application/problem+json" || a.Header.Get("Retry-After") == "" ||
				!strings.Contains(a.body, `"violated-policies"`) || a.Header.Get("X-Content-Type-Options") != "nosniff" {
				r.Errorf("it is refused by %v, %s", a.Header, a.body)
			}
			return n
		}
	}
	r.Fatalf("%s: 1,000 requests were granted", path)
	return 0
}

func TestLimitPerClient(t *testing.T) {
	r := newLimitedRig(t, nil, "")
	if n := r.exhaust("/api/v1/regions"); n != 60 {
		t.Errorf("%d were granted", n)
	}
	for _, path := range []string{"/api/v1/quota", "/api/v1/trending?region=US", "/api/v1/search?q=a", "/nothing", "/api/v1/regions/"} {
		r.problem(http.StatusTooManyRequests, "GET", path, "")
	}
	r.problem(http.StatusTooManyRequests, "POST", "/api/v1/regions", "{}")
	r.Clock.Advance(2 * time.Minute)
	if a := r.ask("GET", "/api/v1/regions", ""); a.StatusCode != http.StatusOK || !strings.HasPrefix(a.Header.Get("RateLimit"), `"client";r=59;`) {
		t.Errorf("two minutes later: %s, RateLimit: %s", a.Status, a.Header.Get("RateLimit"))
	}
}

func TestLimitOfARoute(t *testing.T) {
	const own = `families:
  client: {quota: 5, windows: [{per: 1m, algorithm: counter}], keys: {127.0.0.1: {quota: 7}}}
  client_search: {quota: 3, windows: [{per: 1m, algorithm: counter}]}
  another: {quota: 1, windows: [{per: 1m}]}
`
	r := newLimitedRig(t, nil, own)
	if n := r.exhaust("/api/v1/search?q=a"); n != 3 {
		t.Errorf("%d searches were granted", n)
	}
	if n := r.exhaust("/api/v1/regions"); n != 7 {
		t.Errorf("%d others were granted", n)
	}
	if a := r.ask("HEAD", "/api/v1/search?q=a", ""); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("HEAD: %s", a.Status)
	}
}

func TestLimitsAreExchanged(t *testing.T) {
	r := newLimitedRig(t, nil, "families: {client: {quota: 2, windows: [{per: 1m, algorithm: counter}]}}")
	r.exhaust("/api/v1/regions")
	update := func(families string) error {
		return r.server.Update(web.Sources{Sources: view.Sources{Ledger: r.Ledger, Catalog: r.Catalog, Runner: r.Runner, Jobs: r.Config.List()}}, r.Book(families))
	}
	if err := update("families: {client_serach: {quota: 1, windows: [{per: 1m}]}}"); err == nil || !strings.Contains(err.Error(), "client_serach") {
		t.Errorf("a limit of no route: %v", err)
	}
	if _, taken := r.Ledger.Book().Families["client_serach"]; taken {
		t.Error("a price book that was refused is in use")
	}
	r.problem(http.StatusTooManyRequests, "GET", "/api/v1/regions", "")
	r.Must(update("families: {client: {quota: 9, windows: [{per: 1m, algorithm: counter}]}}"))
	if n := r.exhaust("/api/v1/regions"); n != 9 {
		t.Errorf("%d were granted", n)
	}
}

// TestMonitorsAreNotLimited: what asks every few seconds must not be told to wait.
func TestMonitorsAreNotLimited(t *testing.T) {
	r := newLimitedRig(t, nil, "families: {client: {quota: 1, windows: [{per: 1h, algorithm: counter}]}}")
	r.exhaust("/api/v1/regions")
	for _, path := range []string{"/metrics", "/livez", "/readyz"} {
		for range 3 {
			if a := r.ask("GET", path, ""); a.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", path, a.Status)
			}
		}
	}
}

// TestForgedAddresses has clients say that they are others.
func TestForgedAddresses(t *testing.T) {
	forged := [][]string{
		{"X-Forwarded-For", "203.0.113.9"},
		{"X-Forwarded-For", "203.0.113.9, 127.0.0.1"},
		{"X-Forwarded-For", "", "X-Forwarded-For", "203.0.113.10"},
		{"X-Forwarded-For", "\t,,;unknown"},
		{"X-Real-Ip", "203.0.113.9"},
		{"Forwarded", "for=203.0.113.9"},
		{"True-Client-Ip", "203.0.113.9"},
		{"X-Client-Ip", "203.0.113.9"},
		{"Cf-Connecting-Ip", "203.0.113.9"},
		{"X-Forwarded-Host", "localhost", "X-Forwarded-Proto", "https"},
		{"Authorization", "Bearer another"},
		{"Host", "localhost"},
		{"User-Agent", "another", "Cookie", "client=another"},
	}
	r := newLimitedRig(t, nil, "")
	r.exhaust("/api/v1/regions")
	for _, headers := range forged {
		r.problem(http.StatusTooManyRequests, "GET", "/api/v1/regions", "", headers...)
	}

	proxied := newLimitedRig(t, &web.Options{AnyHost: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, "")
	const client = "198.51.100.1" // as our proxy writes it behind what the client said
	if n := proxied.exhaust("/api/v1/regions", "X-Forwarded-For", client); n != 60 {
		t.Errorf("through a proxy %d were granted", n)
	}
	for _, said := range []string{"203.0.113.9", "127.0.0.1", "203.0.113.9, 203.0.113.10", "not an address", "::1"} {
		proxied.problem(http.StatusTooManyRequests, "GET", "/api/v1/regions", "", "X-Forwarded-For", said+", "+client)
		proxied.problem(http.StatusTooManyRequests, "GET", "/api/v1/regions", "", "X-Forwarded-For", said, "X-Forwarded-For", client)
	}
	if a := proxied.ask("GET", "/api/v1/regions", "", "X-Forwarded-For", "198.51.100.2"); a.StatusCode != http.StatusOK {
		t.Errorf("another client: %s", a.Status)
	}
}

// TestWhoHangsUp asks as clients do that are gone, or have closed their half, when the
// server begins to answer.
func TestWhoHangsUp(t *testing.T) {
	r := newLimitedRig(t, nil, "")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	ask := func(path string) (status int, aborted any) {
		defer func() { aborted = recover() }()
		w := httptest.NewRecorder()
		w.Code = 0
		r.server.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", "http://localhost"+path, http.NoBody))
		return w.Code, nil
	}
	paths := []string{"/api/v1/quota", "/api/v1/regions", "/api/v1/trending?region=US", "/api/v1/search?q=a", "/api/v1/runs"}
	for _, path := range paths {
		if status, aborted := ask(path); aborted != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			t.Errorf("%s: it says %d to nobody, %v", path, status, aborted)
		}
	}
	if status, _ := ask("/"); status >= 500 {
		t.Errorf("a page says %d to nobody", status)
	}
	for range 60 - len(paths) - 1 {
		ask("/api/v1/regions")
	}
	if status, _ := ask("/api/v1/regions"); status != http.StatusTooManyRequests {
		t.Errorf("the 61st gets %d", status)
	}
}
