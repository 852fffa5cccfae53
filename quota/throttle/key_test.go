package throttle_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// heard is a store that notes the keys that it is asked for.
type heard struct {
	quota.Store
	keys []string
}

func (h *heard) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	h.keys = append(h.keys, r.Charges[0].Pool.Key)
	return h.Store.Reserve(ctx, r)
}

// keysOf returns the keys of a request by some parts, as a store hears them.
func keysOf(t testing.TB, o *throttle.Options, requests ...*http.Request) []string {
	t.Helper()
	h := &heard{Store: memstore.New(nil)}
	ledger, err := quota.New(throttle.Book(), h, nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		limiter.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	}
	return h.keys
}

func TestKeys(t *testing.T) {
	const v4, v6 = "203.0.113.7:4711", "[2001:db8:7:1:2:3:4:5]:4711"
	type parts = []throttle.Part
	for _, tt := range []struct {
		name    string
		by      parts
		request *http.Request
		want    string
	}{
		{"address", nil, request("GET /", v4), "203.0.113.7"},
		{"ipv6_by_64", nil, request("GET /", v6), "2001:db8:7:1::/64"},
		{"ipv4_mapped", nil, request("GET /", "[::ffff:203.0.113.7]:4711"), "203.0.113.7"},
		{"no_address", nil, request("GET /", "@"), "unknown"},
		{"token", parts{throttle.Token}, request("GET /", v4, "Authorization: bearer  abc"), "token=ungWv48Bz-pBQUDeXa4iIw"},
		{"no_token", parts{throttle.Token}, request("GET /", v4), "203.0.113.7"},
		{"another_scheme", parts{throttle.Token}, request("GET /", v4, "Authorization: Basic abc"), "203.0.113.7"},
		{"token_and_address", parts{throttle.Token, throttle.Address}, request("GET /", v4, "Authorization: Bearer abc"), "token=ungWv48Bz-pBQUDeXa4iIw|203.0.113.7"},
		{"header", parts{throttle.Header("X-Team")}, request("GET /", v4, "X-Team: blue"), "header:x-team=blue"},
		{"header_twice", parts{throttle.Header("x-team")}, request("GET /", v4, "X-Team: blue", "X-Team: red"), "header:x-team=blue,red"},
		{"no_header", parts{throttle.Header("X-Team")}, request("GET /", v4, "X-Team: "), "203.0.113.7"},
		{"what_a_client_writes_stays_in_its_part", parts{throttle.Header("X-Team"), throttle.Address}, request("GET /", v4, "X-Team: a|203.0.113.8%|\n\u00fc"), "header:x-team=a%7C203.0.113.8%25%7C%0A%C3%BC|203.0.113.7"},
		{"secret", parts{throttle.Secret("X-Api-Key")}, request("GET /", v4, "X-Api-Key: abc"), "header:x-api-key=token=ungWv48Bz-pBQUDeXa4iIw"},
		{"route", parts{throttle.Address, throttle.Route}, request("GET /feed/7", v4), "203.0.113.7|route=GET /feed/{id}"},
		{"no_route", parts{throttle.Address, throttle.Route}, request("GET /invented/7", v4), "203.0.113.7|route="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limits := []throttle.Limit{{By: tt.by}}
			keys := keysOf(t, &throttle.Options{Limits: limits, Routes: map[string][]throttle.Limit{"GET /feed/{id}": limits}}, tt.request)
			if want := []string{tt.want}; !slices.Equal(keys, want) {
				t.Errorf("%q, want %q", keys, want)
			}
		})
	}
	if got, want := throttle.TokenKey("abc"), "token=ungWv48Bz-pBQUDeXa4iIw"; got != want {
		t.Errorf("TokenKey: %s, want %s", got, want)
	}
}

// A client cannot get the key of another client by what it writes. That also holds
// between limits of one family that count by different parts.
func TestNoTwoCombinationsAreOneKey(t *testing.T) {
	const from = "203.0.113.7:1"
	team, app := throttle.Header("X-Team"), throttle.Header("X-App")
	var all []string
	for _, by := range [][]throttle.Part{
		{throttle.Address},
		{throttle.Token},
		{throttle.Route},
		{team},
		{app},
		{throttle.Secret("X-Team")},
		{team, app},
		{app, team},
		{team, throttle.Address},
		{throttle.Address, team},
		{throttle.Token, throttle.Route},
	} {
		for _, team := range []string{"a", "b", "203.0.113.7", "header:x-team=a", "token=" + strings.Repeat("A", 22), "a|header:x-app=b", "a%7Cheader:x-app=b"} {
			for _, app := range []string{"b", "a|header:x-team=b"} {
				all = append(all, keysOf(t, &throttle.Options{Limits: []throttle.Limit{{By: by}}},
					request("GET /", from, "X-Team: "+team, "X-App: "+app, "Authorization: Bearer "+team))...)
			}
		}
	}
	slices.Sort(all)
	// by: one address, 7 tokens, one route, 7 teams, 2 apps, 7 secrets, twice 14
	// pairs, twice 7 with the address, 7 with the route
	if got, want := len(slices.Compact(all)), 1+7+1+7+2+7+14+14+7+7+7; got != want {
		t.Errorf("%d keys, want %d", got, want)
	}
}

func TestARouteOfAMuxAround(t *testing.T) {
	h := &heard{Store: memstore.New(nil)}
	ledger, err := quota.New(throttle.Book(), h, nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, &throttle.Options{Limits: []throttle.Limit{{By: []throttle.Part{throttle.Route}}}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /videos/{id}", limiter.Handler(http.NotFoundHandler()))
	mux.ServeHTTP(httptest.NewRecorder(), request("GET /videos/7", "203.0.113.7:1"))
	if want := []string{"route=GET /videos/{id}"}; !slices.Equal(h.keys, want) {
		t.Errorf("%q, want %q", h.keys, want)
	}
}
