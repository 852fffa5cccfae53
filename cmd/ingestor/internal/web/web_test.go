package web_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

func TestItTellsOfLedgerAndCatalog(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	var pools struct{ Pools []view.Pool }
	r.get("/api/v1/quota", &pools)
	used := int64(0)
	for _, p := range pools.Pools {
		if p.Pool == "youtube/units" {
			used = p.Windows[0].Used
		}
	}
	if used != 4 {
		t.Errorf("of youtube/units %d are used, not those of two pages of two regions", used)
	}
	var regions struct{ Regions []view.Feed }
	r.get("/api/v1/regions", &regions)
	if len(regions.Regions) != 2 || regions.Regions[0].Region != "DE" || regions.Regions[0].State != view.Fresh {
		t.Errorf("the regions are %+v", regions.Regions)
	}
}

func TestWhatThereIsNot(t *testing.T) {
	r := newRig(t, nil)
	r.problem(http.StatusNotFound, "GET", "/nothing", "")
	r.problem(http.StatusNotFound, "GET", "/api/v1/", "")
	r.problem(http.StatusMethodNotAllowed, "POST", "/api/v1/quota", "{}")
	if a := r.ask("DELETE", "/api/v1/quota", ""); a.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("it allows %q", a.Header.Get("Allow"))
	}
	if a := r.ask("GET", "//api/v1/quota", ""); a.StatusCode/100 != 3 || a.Header.Get("Location") != "/api/v1/quota" {
		t.Errorf("it leads to %s %q", a.Status, a.Header.Get("Location"))
	}
}

func TestOtherHosts(t *testing.T) {
	r := newRig(t, nil)
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1"} {
		if p := r.problem(http.StatusMisdirectedRequest, "GET", "/api/v1/quota", "", "Host", host); p.Detail == "" {
			t.Errorf("%s: it does not say why", host)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1", "127.9.9.9:1", "[::1]:8080"} {
		if a := r.ask("GET", "/api/v1/quota", "", "Host", host); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", host, a.Status)
		}
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r = newRig(t, &web.Options{Hosts: []string{"feeds.example", "2001:db8::1"}, TrustedProxies: proxies})
	for host, want := range map[string]int{
		"feeds.example": 200, "Feeds.Example:8080": 200, "[2001:db8::1]:8080": 200, "localhost": 200,
		"evil.example": 421, "feeds.example.evil.example": 421, "2001:db8::2": 421,
	} {
		if a := r.ask("GET", "/api/v1/quota", "", "Host", host); a.StatusCode != want {
			t.Errorf("%s: %s", host, a.Status)
		}
	}
	if a := r.ask("GET", "/readyz", "", "Host", "10.1.2.3"); a.StatusCode != http.StatusOK {
		t.Errorf("a probe gets %s", a.Status)
	}
	for host, want := range map[string]int{"10.1.2.3:8080": 200, "[2001:db8::2]:8080": 200, "evil.example": 421} {
		if a := r.ask("GET", "/metrics", "", "Host", host); a.StatusCode != want {
			t.Errorf("who scrapes %s gets %s", host, a.Status)
		}
	}
	r = newRig(t, &web.Options{AnyHost: true})
	if a := r.ask("GET", "/api/v1/quota", "", "Host", "feeds.example"); a.StatusCode != http.StatusOK {
		t.Errorf("%s", a.Status)
	}
}

// TestOtherSites: what their pages have a browser send is refused, and counts for no limit.
func TestOtherSites(t *testing.T) {
	r := newLimitedRig(t, nil, "families: {client: {quota: 8, windows: [{per: 1h, algorithm: counter}]}}")
	cross := []string{"Sec-Fetch-Site", "cross-site"}
	for range 3 {
		for _, headers := range [][]string{
			append([]string{"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, cross...),
			append([]string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, cross...),
			{"Origin", "https://evil.example"},
			{"Origin", "null"},
			{"Origin", "http://localhost:1"},
			{"Origin", "%"},
		} {
			for _, route := range []string{"GET /", "GET /api/v1/quota", "POST /v1/reserve", "GET /livez"} {
				method, path, _ := strings.Cut(route, " ")
				if p := r.problem(http.StatusForbidden, method, path, "", headers...); p.Code != "cross_site" {
					t.Errorf("%s: %+v", route, p)
				}
			}
		}
	}
	link := append([]string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, cross...)
	r.problem(http.StatusForbidden, "GET", "/api/v1/quota", "", link...)
	for name, headers := range map[string][]string{
		"a link":       link,
		"our own page": {"Sec-Fetch-Site", "same-origin", "Origin", "http://elsewhere.example"},
		"a person":     {"Sec-Fetch-Site", "none"},
		"an older one": {"Origin", r.url},
		"a program":    nil,
	} {
		if a := r.ask("GET", "/", "", headers...); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, a.Status)
		}
	}
	if a := r.ask("GET", "/", ""); a.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" || a.Header.Get("Strict-Transport-Security") != "" {
		t.Errorf("the headers are %v", a.Header)
	}
	if a := r.ask("GET", "/metrics", ""); !strings.Contains(a.body, `ingestor_requests_turned_away_total{reason="cross_site"} 73`) {
		t.Error("the metrics do not tell of it")
	}
}

// TestAProxyThatIsNotTrusted is named once in the log: all who come through it are one client.
func TestAProxyThatIsNotTrusted(t *testing.T) {
	for trusted, want := range map[string]int{"10.0.0.0/8": 1, "127.0.0.0/8": 0} {
		var log bytes.Buffer
		r := newRig(t, &web.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), TrustedProxies: []netip.Prefix{netip.MustParsePrefix(trusted)}})
		r.ask("GET", "/livez", "")
		if log.Len() > 0 {
			t.Errorf("it logs %s", &log)
		}
		for range 3 {
			r.ask("GET", "/livez", "", "X-Forwarded-For", "203.0.113.1")
		}
		if got := strings.Count(log.String(), "trusted_proxies"); got != want || got > 0 && !strings.Contains(log.String(), "proxy=127.0.0.1") {
			t.Errorf("with %s trusted, it logs %d lines, want %d:\n%s", trusted, got, want, &log)
		}
	}
}

// TestStrictTransport: browsers are to come by TLS only, but not to this machine's other
// programs.
func TestStrictTransport(t *testing.T) {
	r := newRig(t, &web.Options{AnyHost: true})
	for host, want := range map[string]bool{"feeds.example": true, "localhost:8443": false} {
		req := httptest.NewRequest(http.MethodGet, "https://"+host+"/", http.NoBody)
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, req)
		if got := w.Header().Get("Strict-Transport-Security") != ""; got != want {
			t.Errorf("%s: %v", host, w.Header())
		}
	}
}

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8080": false, "[::1]:0": false, "localhost:80": false,
		":8080": true, "0.0.0.0:80": true, "[::]:80": true, "192.0.2.1:80": true, "example.com:80": true,
	} {
		if got, err := web.Public(address); got != want || err != nil {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
	if _, err := web.Public("127.0.0.1"); err == nil {
		t.Error("an address without a port is one")
	}
}

func TestProbes(t *testing.T) {
	r := newRig(t, nil)
	probe := func(path string) string {
		var told struct{ Status string }
		r.get(path, &told)
		return told.Status
	}
	units := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	_, err := r.Ledger.Admin().Adjust(t.Context(), units, 20_000, "all and more")
	r.Must(err)
	if got := probe("/readyz"); got != "ready" {
		t.Errorf("with an empty quota it is %q", got)
	}
	if p := r.problem(http.StatusServiceUnavailable, "GET", "/readyz?jobs=yes", ""); p.Detail != "runs cannot do their work: Used up" {
		t.Errorf("who asks for jobs is told %q", p.Detail)
	}
	r.problem(http.StatusBadRequest, "GET", "/readyz?jobs=1", "")
	r.Must(r.Catalog.Close())
	if p := r.problem(http.StatusServiceUnavailable, "GET", "/readyz", ""); p.Detail != "the catalog cannot be read" {
		t.Errorf("it says %q", p.Detail)
	}
	if got := probe("/livez"); got != "live" {
		t.Errorf("without a catalog it is %q", got)
	}
}

// TestProbesOfALoneProxy answer no page whose own name resolves to their address. Monitoring
// asks for addresses, and for the hosts of the settings. The server has the machine's clock, as that of
// ingestor proxy.
func TestProbesOfALoneProxy(t *testing.T) {
	r := newRig(t, nil)
	log := slog.New(slog.DiscardHandler)
	probes := web.NewProbes(r.Ledger, &web.Options{Log: log, Metrics: metrics.New(&metrics.Options{Log: log}), Hosts: []string{"proxy.example"}})
	var how net.ListenConfig
	l, err := how.Listen(t.Context(), "tcp", "127.0.0.1:0")
	r.Must(err)
	r.url = "http://" + r.serveWith(l, probes.ServeProbes).address
	for host, want := range map[string]int{
		"proxy.example": 200, "Proxy.Example:9090": 200, "localhost:9090": 200, "10.1.2.3": 200, "10.1.2.3:9090": 200, "[2001:db8::1]:9090": 200,
		"evil.example": 421, "10.1.2.3.evil.example": 421, "proxy.example.evil.example": 421,
	} {
		if a := r.ask("GET", "/metrics", "", "Host", host); a.StatusCode != want || strings.Contains(a.body, "headroom_") != (want == 200) {
			t.Errorf("%q: %s, %.100s", host, a.Status, a.body)
		}
		if a := r.ask("GET", "/readyz", "", "Host", host); a.StatusCode != http.StatusOK {
			t.Errorf("a probe of %q gets %s", host, a.Status)
		}
	}
	r.problem(http.StatusForbidden, "GET", "/metrics", "", "Sec-Fetch-Site", "cross-site")
}
