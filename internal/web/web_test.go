package web_test

import (
	"net/http"
	"testing"

	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/internal/web/view"
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
	r = newRig(t, &web.Options{AnyHost: true})
	if a := r.ask("GET", "/api/v1/quota", "", "Host", "feeds.example"); a.StatusCode != http.StatusOK {
		t.Errorf("%s", a.Status)
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
	_, err := r.Ledger.Adjust(t.Context(), units, 20_000, "all and more")
	r.Must(err)
	if got := probe("/readyz"); got != "ready" {
		t.Errorf("with an empty quota it is %q", got)
	}
	r.Must(r.Catalog.Close())
	if p := r.problem(http.StatusServiceUnavailable, "GET", "/readyz", ""); p.Detail != "the catalog cannot be read" {
		t.Errorf("it says %q", p.Detail)
	}
	if got := probe("/livez"); got != "live" {
		t.Errorf("without a catalog it is %q", got)
	}
}
