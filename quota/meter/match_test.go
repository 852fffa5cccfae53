package meter_test

import (
	"net/http"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// A match that travels with a request is used, and only for the request and the book that it is of.
func TestMatchTravels(t *testing.T) {
	const prices = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools: {units: {quota: 100, windows: [{per: 1h}]}}
    methods: {cheap: {route: GET /cheap, pool: units, cost: 1}, dear: {route: GET /dear, pool: units, cost: 10}}
`
	const other = `{revision: 1, upstreams: {api: {hosts: [api.example.com], pools: {units: {quota: 100, windows: [{per: 1h}]}}, methods: {x: {route: GET /cheap, pool: units, cost: 2}}}}}`
	for name, c := range map[string]struct {
		verb, path string
		again      string // the price book of the call
		want       int64
	}{
		"of the request":     {"GET", "/cheap", prices, 10}, // the match was changed, to show that it is used
		"of another path":    {"GET", "/dear", prices, 1},
		"of another verb":    {"POST", "/cheap", prices, 1},
		"of an earlier book": {"GET", "/cheap", other, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, prices, quota.NewSimClock(noon))
			m := l.Book().Match(c.verb, "api.example.com", c.path)
			m.Method = l.Book().Upstreams["api"].Methods["dear"]
			if c.again != prices {
				b, err := book.Parse("costs.yaml", []byte(c.again), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.SetBook(b); err != nil {
					t.Fatal(err)
				}
			}
			transport := newTransport(t, l, &meter.Options{Logger: discard, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
			})})
			ctx := meter.WithCaller(t.Context(), meter.Caller{Match: &m})
			req, err := http.NewRequestWithContext(ctx, "GET", "https://api.example.com/cheap", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			usage, err := l.View().Usage(t.Context(), "api", "")
			if err != nil || usage[0].Allowances[0].Used != c.want {
				t.Errorf("%+v, %v", usage, err)
			}
		})
	}
}
