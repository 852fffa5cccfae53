package ways

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

const prices = `
revision: 1
upstreams:
  maps:
    hosts: [maps.example.com]
    pools: {units: {quota: 1000, windows: [{per: 24h}]}}
    methods: {places.get: {route: GET /v1/places, pool: units, cost: 1}}
`

// TestWays makes as many calls as HEADROOM_CALLS says, 1 without it: each one a reservation, or a
// request through the transport.
func TestWays(t *testing.T) {
	calls := 1
	if text := os.Getenv("HEADROOM_CALLS"); text != "" {
		calls, _ = strconv.Atoi(text)
	}
	b, err := book.Parse("costs.yaml", []byte(prices), nil)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := quota.New(b, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("reservation", func(t *testing.T) {
		for range calls {
			if _, err := ledger.Reserve(t.Context(), quota.Call{Upstream: "maps", Method: "places.get"}); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("request", func(t *testing.T) {
		transport, err := meter.New(ledger, &meter.Options{Base: answering{}})
		if err != nil {
			t.Fatal(err)
		}
		for range calls {
			resp, err := (&http.Client{Transport: transport}).Get("https://maps.example.com/v1/places")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
	})
	usage, err := ledger.View().Usage(t.Context(), "maps", "")
	if err != nil || len(usage) == 0 {
		t.Fatalf("no pool was used: %v", err)
	}
}

// answering answers each request without a network.
type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusOK)
	return w.Result(), nil
}
