package meter_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// An answer without a body gives its slot back at once, by any version of HTTP, also if nobody closes it.
func TestAnAnswerWithoutABodyKeepsNoSlot(t *testing.T) {
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/304":
				w.WriteHeader(http.StatusNotModified)
			}
		}))
		server.EnableHTTP2 = version == "HTTP/2.0"
		server.StartTLS()
		t.Cleanup(server.Close)
		for _, call := range []string{"HEAD /", "GET /", "GET /204", "GET /304"} {
			t.Run(version+" "+call, func(t *testing.T) {
				ledger := newLedger(t, strings.Replace(fewAtOnce, "api.example.com", strings.TrimPrefix(server.URL, "https://"), 1)+`
      any: {route: "* /{rest...}", charge: {calls: 1}}
`, quota.NewSimClock(noon))
				metered, err := meter.New(ledger, &meter.Options{Base: server.Client().Transport, Logger: discard})
				if err != nil {
					t.Fatal(err)
				}
				for range 3 { // two at a time
					verb, path, _ := strings.Cut(call, " ")
					req, _ := http.NewRequestWithContext(t.Context(), verb, server.URL+path, nil)
					resp, err := metered.RoundTrip(req) //nolint:bodyclose // it has none
					if err != nil {
						t.Fatal(err)
					}
					if resp.Proto != version {
						t.Fatalf("the answer is %s", resp.Proto)
					}
					if err := metered.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
