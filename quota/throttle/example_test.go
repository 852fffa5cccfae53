package throttle_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// 60 requests a minute for each client address: all that there is to say.
func Example() {
	ledger, err := quota.New(throttle.Book(), memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := throttle.New(ledger, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	server := httptest.NewServer(limiter.Handler(mux))
	defer server.Close()
	resp, err := http.Get(server.URL + "/hello")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, resp.Header.Get("RateLimit-Policy"))
	// Output:
	// 200 "client";q=60;w=60
}

// Searches have a limit of their own beside that of all requests, probes none, and
// the address is what a proxy of ours says.
func ExampleOptions() {
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
families:
  client: {quota: 60, windows: [{per: 1m, algorithm: counter}]}
  search: {quota: 2, windows: [{per: 1m}]}
`), nil)
	if err != nil {
		log.Fatal(err)
	}
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	ledger, err := quota.New(costs, memstore.New(&memstore.Options{Clock: clock}), nil)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := throttle.New(ledger, &throttle.Options{
		Routes: map[string][]throttle.Limit{
			"GET /search": {{Family: "client"}, {Family: "search"}},
			"GET /livez":  {},
		},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := limiter.Handler(http.NotFoundHandler())
	for range 3 {
		r := httptest.NewRequest("GET", "/search?q=cats", nil)
		r.RemoteAddr = "10.0.0.1:4711"
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
		if after := w.Header().Get("Retry-After"); after != "" {
			fmt.Printf("come again in %s s\n%s", after, w.Body)
		}
	}
	// Output:
	// 404 "client";r=59;t=120, "search";r=1;t=61
	// 404 "client";r=58;t=120, "search";r=0;t=61
	// 429 "client";r=57;t=120, "search";r=0;t=61
	// come again in 61 s
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"at most 2 in 1m; come again after the seconds in Retry-After","violated-policies":["search"]}
}

// A limit by token, of which one has more.
func ExampleTokenKey() {
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
revision: 1
families:
  client: {quota: 60, windows: [{per: 1m, algorithm: counter}], keys: {%q: {quota: 6000}}}
`, throttle.TokenKey("the token of a partner")), nil)
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := throttle.New(ledger, &throttle.Options{Limits: []throttle.Limit{{By: []throttle.Part{throttle.Token}}}})
	if err != nil {
		log.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer the token of a partner")
	w := httptest.NewRecorder()
	limiter.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	fmt.Println(w.Header().Get("RateLimit-Policy"))
	// Output:
	// "client";q=6000;w=60
}
