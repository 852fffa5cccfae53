package meter_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

const tenants = `
revision: 1
upstreams:
  shops:
    hosts: ["*.shops.example.com"]
    accounts: any
    account: {host: 1}
    api_key: {header: X-Api-Key}
    pools: {units: {quota: 2, windows: [{per: 1h}]}}
    default: {GET: 1}
  hub:
    hosts: [hub.example.com, www.example.com/hub/]
    accounts: any
    account: {header: X-Org}
    api_key: {header: X-Api-Key}
    redirects: [files.example.net, "*.cdn.example.net", shop.shops.example.com]
    pools: {units: {quota: 100, windows: [{per: 1h}]}}
    methods:
      search: {route: GET /search, cost: 10}
      files: {route: "GET /files/{path...}", cost: 1}
    default: {GET: 1, "*": 5}
  seen:
    hosts: [seen.example.com]
    mode: observe
    api_key: {header: X-Api-Key, query: key}
    pools: {units: {quota: 1, windows: [{per: 1h}]}}
    methods: {a: {route: GET /a, cost: 1}}
`

func tenantRig(t *testing.T, handler http.HandlerFunc, keys map[string]meter.KeySource) *rig {
	r := newRig(t, handler, nil)
	r.ledger = newLedger(t, tenants, r.clock)
	r.meter(&meter.Options{Keys: keys})
	return r
}

// The host or a header names whose call it is.
func TestTheRequestNamesItsAccount(t *testing.T) {
	r := tenantRig(t, nil, nil)
	for range 2 {
		r.get("https://acme.shops.example.com/x")
		r.get("https://Other.shops.example.com:443/x")
	}
	_, _, err := r.do(t.Context(), "GET", "https://ACME.shops.example.com/x", "")
	if e := refused(t, err); e.Pool.String() != "shops@acme/units" {
		t.Errorf("refused by %s", e.Pool)
	}
	if _, _, err := r.do(meter.WithAccount(t.Context(), "acme"), "GET", "https://other.shops.example.com/x", ""); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a contradiction: %v", err)
	}
	org := func(values ...string) error {
		req := get(t, "https://hub.example.com/x")
		req.Header["X-Org"] = values
		_, _, err := r.send(req)
		return err
	}
	if err := errors.Join(org("a"), org(" a "), org("b/c:d@e")); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]int64{"hub@a": 2, "hub@b%2Fc%3Ad@e": 1} {
		if got := r.used(account + "/units"); got != want {
			t.Errorf("%s: %d units charged, want %d", account, got, want)
		}
	}
	for _, values := range [][]string{{"a", "b"}, {"*"}, {strings.Repeat("x", 129)}, {"\xff"}} {
		if err := org(values...); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("%q: error %v", values, err)
		}
	}
	t.Run("a bad name reaches no source of keys and no log", func(t *testing.T) {
		r.log.Reset()
		r.meter(&meter.Options{Keys: map[string]meter.KeySource{"hub@*": func(ctx context.Context) (string, error) {
			t.Errorf("asked for the key of %.40q", meter.CallerOf(ctx).Account)
			return "", nil
		}}})
		for _, name := range []string{"a\tb", "a\nb", strings.Repeat("x", 100_000)} {
			if err := org(name); !errors.Is(err, quota.ErrBadInput) {
				t.Errorf("%.40q: error %v", name, err)
			}
		}
		if n := r.log.Len(); n == 0 || n > 2000 {
			t.Errorf("the log has %d bytes", n)
		}
		r.meter(nil)
	})
	if err := org(""); err != nil || r.used("hub/units") != 1 {
		t.Errorf("an empty one is none: %v", err)
	}
	r.meter(&meter.Options{Account: "mine"})
	if err := org(""); err != nil || r.used("hub@mine/units") != 1 {
		t.Errorf("without one the transport's counts: %v", err)
	}
}

// A default price is of one call, and of nothing that only looks like one.
func TestDefaultPrices(t *testing.T) {
	r := tenantRig(t, nil, nil)
	for _, c := range []struct {
		verb, url string
		cost      int64 // -1: it has no price
	}{
		{"GET", "https://hub.example.com/x", 1},
		{"POST", "https://hub.example.com/x", 5},
		{"GET", "https://hub.example.com/search?q=1", 10},
		{"GET", "https://hub.example.com/search/", -1},
		{"GET", "https://hub.example.com/%73earch", -1},
		{"GET", "https://hub.example.com/files/a/b", 1},
		{"POST", "https://hub.example.com/batch", -1},
		{"GET", "https://www.example.com/hub/x", 1},
		{"GET", "https://www.example.com/other/x", 0},
	} {
		before := r.used("hub/units")
		_, _, err := r.do(t.Context(), c.verb, c.url, "")
		if errors.Is(err, quota.ErrUnpriced) != (c.cost < 0) || c.cost >= 0 && err != nil {
			t.Errorf("%s %s: %v", c.verb, c.url, err)
		}
		if got := r.used("hub/units") - before; got != max(c.cost, 0) {
			t.Errorf("%s %s costs %d, want %d", c.verb, c.url, got, c.cost)
		}
	}
	t.Run("a URL that is sent whole", func(t *testing.T) {
		r := tenantRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }, nil)
		for _, opaque := range []string{"//www.example.com/hub/x", "https://www.example.com/hub/x", "//hub.example.com/search", "/search?x"} {
			req := get(t, "https://hub.example.com/")
			req.URL.Opaque = opaque
			if _, _, err := r.send(req); !errors.Is(err, quota.ErrUnpriced) {
				t.Errorf("%s: error %v", opaque, err)
			}
		}
	})
}

// A redirect to a host that the book names is followed without the key.
func TestRedirectsFollowTheBook(t *testing.T) {
	for _, c := range []struct {
		to    string
		ok    bool
		spent int64 // of shops
	}{
		{"https://files.example.net/x", true, 0},
		{"https://a.cdn.example.net/x", true, 0},
		{"https://shop.shops.example.com/x", true, 1}, // metered there
		{"https://elsewhere.example.net/x", false, 0},
		{"https://a.b.cdn.example.net/x", false, 0},
		{"http://files.example.net/x", false, 0},
	} {
		var there atomic.Value
		r := tenantRig(t, func(w http.ResponseWriter, req *http.Request) {
			if req.Host == "hub.example.com" {
				http.Redirect(w, req, c.to, http.StatusFound)
				return
			}
			there.Store(req.Header.Get("X-Api-Key") + req.Header.Get("Authorization"))
		}, map[string]meter.KeySource{"hub": meter.Key(secret), "shops": meter.Key(secret)})
		req := get(t, "https://hub.example.com/files/x")
		req.Header.Set("X-Api-Key", "the caller's")
		_, _, err := r.send(req)
		var no *meter.RedirectError
		if errors.As(err, &no) == c.ok || c.ok && err != nil {
			t.Errorf("%s: %v", c.to, err)
		}
		if got := there.Load(); c.ok && got != "" || !c.ok && got != nil {
			t.Errorf("%s got %q", c.to, got)
		}
		if got := r.used("shops@shop/units"); got != c.spent || r.used("hub/units") != 1 {
			t.Errorf("%s: %d units of shops charged, want %d", c.to, got, c.spent)
		}
	}
}

// In mode observe nothing is refused but what would endanger the key.
func TestObservedUpstream(t *testing.T) {
	sent := 0
	r := tenantRig(t, func(http.ResponseWriter, *http.Request) { sent++ }, nil)
	var events []quota.EventKind
	r.ledger = watched(t, r.ledger.Book(), r.clock, func(e quota.Event) { events = append(events, e.Kind) })
	r.meter(nil)
	overridden := get(t, "https://seen.example.com/a")
	overridden.Header.Set("X-HTTP-Method-Override", "DELETE")
	for _, req := range []*http.Request{get(t, "https://seen.example.com/a"), get(t, "https://seen.example.com/a"), get(t, "https://seen.example.com/b"), get(t, "https://seen.example.com/batch"), overridden} {
		if _, _, err := r.send(req); err != nil {
			t.Errorf("%s: %v", req.URL, err)
		}
	}
	want := []quota.EventKind{quota.EventGranted, quota.EventObserved, quota.EventObserved, quota.EventObserved, quota.EventObserved}
	if len(events) != len(want) || sent != len(want) || r.used("seen/units") != 2 {
		t.Fatalf("%d sent, events %v, %d units used", sent, events, r.used("seen/units"))
	}
	for i := range want {
		if events[i] != want[i] {
			t.Errorf("event %d is %s, want %s", i, events[i], want[i])
		}
	}
	if _, _, err := r.do(t.Context(), "GET", "https://seen.example.com/a?key=x", ""); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a key in the URL: %v", err)
	}
}

// One source may have the keys of all accounts.
func TestTheKeyOfAnyAccount(t *testing.T) {
	var got atomic.Value
	r := tenantRig(t, func(_ http.ResponseWriter, req *http.Request) { got.Store(req.Header.Get("X-Api-Key")) }, map[string]meter.KeySource{
		"shops@big": meter.Key("the big one's"),
		"shops@*":   func(ctx context.Context) (string, error) { return "key of " + meter.CallerOf(ctx).Account, nil },
	})
	for shop, want := range map[string]string{"acme": "key of acme", "other": "key of other", "big": "the big one's"} {
		if r.get("https://" + shop + ".shops.example.com/x"); got.Load() != want {
			t.Errorf("%s got %q, want %q", shop, got.Load(), want)
		}
	}
}
