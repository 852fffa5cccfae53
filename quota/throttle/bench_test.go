package throttle_test

import (
	"net/http"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// unwritten is a ResponseWriter that writes nowhere, with headers as a server makes
// them.
type unwritten struct {
	header http.Header
	status int
}

func (u *unwritten) Header() http.Header         { return u.header }
func (u *unwritten) WriteHeader(status int)      { u.status = status }
func (u *unwritten) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkServeHTTP(b *testing.B) {
	bare := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name, book string
		limits     []throttle.Limit
	}{
		{"bare", "", nil},
		{"granted", "revision: 1\nfamilies: {client: {quota: 2000000000, windows: [{per: 1m, algorithm: counter}]}}", nil},
		{"refused", "revision: 1\nfamilies: {client: {quota: 1, windows: [{per: 100000m, algorithm: counter}]}}", nil},
		{"refused_by_token", "revision: 1\nfamilies: {client: {quota: 1, windows: [{per: 100000m, algorithm: counter}]}}", []throttle.Limit{{By: []throttle.Part{throttle.Token}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var h http.Handler = bare
			if c.book != "" {
				ledger, err := quota.New(parse(b, c.book), memstore.New(nil), nil)
				if err != nil {
					b.Fatal(err)
				}
				limiter, err := throttle.New(ledger, &throttle.Options{Limits: c.limits})
				if err != nil {
					b.Fatal(err)
				}
				h = limiter.Handler(bare)
			}
			r := request("GET /api/v1/trending", "203.0.113.7:4711", "Authorization: Bearer 0123456789abcdef")
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(&unwritten{header: make(http.Header)}, r)
			}
		})
	}
}
