package throttle_test

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

func TestBadOptions(t *testing.T) {
	ledger := newRig(t, nil).ledger
	for _, tt := range []struct {
		name string
		o    throttle.Options
		want string
	}{
		{"family", throttle.Options{Limits: []throttle.Limit{{Family: "clients"}}}, "throttle: the price book has no family \"clients\"; add it under families: clients: {quota: 60, windows: [{per: 1m, algorithm: counter}]}"},
		{"by_nothing", throttle.Options{Limits: []throttle.Limit{{By: []throttle.Part{}}}}, "throttle: a limit of family client by nothing would be one for all clients together; leave By nil for their address"},
		{"empty_part", throttle.Options{Limits: []throttle.Limit{{By: []throttle.Part{{}}}}}, "throttle: family client: a part of the key is empty; use Address, Token, Route, Header or Secret"},
		{"units", throttle.Options{Limits: []throttle.Limit{{Units: -1}}}, "throttle: family client: units must be 1 or more, not -1"},
		{"impossible_units", throttle.Options{Routes: map[string][]throttle.Limit{"/a": {{Units: 5}}}}, "throttle: route \"/a\": family client: a request of 5 units is never admitted, as the limit of 1m counter is 4"},
		{"impossible_units_for_a_key", throttle.Options{Limits: []throttle.Limit{{Family: "own", Units: 3}}}, "throttle: key \"a\" of family own: a request of 3 units is never admitted, as the limit of 1m is 2"},
		{"outage", throttle.Options{Outage: "drop"}, "throttle: outage \"drop\" is neither refuse nor admit"},
		{"bits", throttle.Options{IPv6Bits: 129}, "throttle: IPv6Bits must be 1 to 128, not 129"},
		{"proxy", throttle.Options{TrustedProxies: []netip.Prefix{{}}}, "throttle: a trusted proxy is no valid prefix; netip.MustParsePrefix(\"10.0.0.0/8\") is one"},
		{"proxy_header", throttle.Options{ProxyHeader: "X-Real-IP"}, "throttle: proxy header \"X-Real-IP\" is neither X-Forwarded-For nor Forwarded"},
		{"route", throttle.Options{Routes: map[string][]throttle.Limit{"GET": nil}}, "throttle: route \"GET\": parsing \"GET\": at offset 0: host/path missing /"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limiter, err := throttle.New(ledger, &tt.o)
			if limiter != nil || !errors.Is(err, quota.ErrBadInput) || err.Error() != tt.want {
				t.Errorf("%v\n%v, want\n%s", limiter, err, tt.want)
			}
		})
	}
	if _, err := throttle.New(nil, nil); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("no ledger: %v", err)
	}
}

// Limits of single keys, and 60 a minute where nothing is said.
func TestLimitsOfTheirOwn(t *testing.T) {
	r := newRig(t, nil)
	r.want(`OK "client";r=4;t=120`, "GET /", "203.0.113.7:1")
	r.want(`OK "client";r=5;t=120`, "GET /a", "[2001:db8:7:1::2]:1")
	r.want(`OK "client";r=4;t=120`, "GET /b", "[2001:db8:7:1:3::1]:1") // the same network
	r.want(`OK "client";r=3;t=120`, "GET /b", "[2001:db8:7:2::1]:1")

	ledger, err := quota.New(throttle.Book(), memstore.New(&memstore.Options{Clock: r.clock}), nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.handler = limiter.Handler(r.handler)
	r.want(`OK "client";r=59;t=120, "client";r=3;t=120`, "GET /", "198.51.100.1:1") // and the one inside
}

// A price book that is changed holds from the next request on.
func TestAnotherBook(t *testing.T) {
	r := newRig(t, nil)
	r.want(`OK "client";r=3;t=120`, "GET /", "198.51.100.1:1")
	more := parse(t, "revision: 1\nfamilies: {client: {quota: 9, windows: [{per: 60s, algorithm: counter}]}}")
	if err := r.limiter.Check(more); err != nil {
		t.Error(err)
	}
	if err := r.ledger.SetBook(more); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request("GET /", "198.51.100.1:1"))
	if got := w.Header(); got.Get("RateLimit-Policy") != `"client";q=9;w=60` || got.Get("RateLimit") != `"client";r=7;t=120` {
		t.Errorf("with another book: %v", got)
	}
	other := parse(t, "revision: 2\nfamilies: {other: {quota: 9, windows: [{per: 60s}]}}")
	if err := r.limiter.Check(other); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("check a book without the family: %v", err)
	}
	if err := r.ledger.SetBook(other); err != nil {
		t.Fatal(err)
	}
	r.want(`Service Unavailable`, "GET /", "198.51.100.1:1") // not silently without a limit
}
