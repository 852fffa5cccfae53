package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"text/tabwriter"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// A guard is what stands before a handler.
type guard struct {
	name string
	wrap func(next http.Handler) http.Handler
}

var guards = []guard{
	{"bare", func(next http.Handler) http.Handler { return next }},
	{"throttled, admitted", guarded(2_000_000_000, nil)},
	{"throttled, refused", guarded(1, nil)},
	{"refused, by token and route", guarded(1, &throttle.Options{Routes: map[string][]throttle.Limit{
		"GET /api/v1/trending": {{By: []throttle.Part{throttle.Token, throttle.Route}}},
		"GET /api/v1/search":   {{By: []throttle.Part{throttle.Token, throttle.Route}}},
	}})},
}

// guarded limits a client in memory by the two-counter estimate.
func guarded(limit int, o *throttle.Options) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		costs := must(book.Parse("bench.yaml", fmt.Appendf(nil,
			"revision: 1\nfamilies: {client: {quota: %d, windows: [{per: 1000h, algorithm: counter}]}}", limit), nil))
		ledger := must(quota.New(costs, memstore.New(nil), nil))
		if o == nil {
			o = &throttle.Options{}
		}
		o.Logger = slog.New(slog.DiscardHandler)
		return must(throttle.New(ledger, o)).Handler(next)
	}
}

// trending answers a little, as a handler does.
var trending = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"items": []}`)
})

// unsent is a ResponseWriter that sends nothing.
type unsent struct{ header http.Header }

func (u *unsent) Header() http.Header         { return u.header }
func (u *unsent) WriteHeader(int)             {}
func (u *unsent) Write(b []byte) (int, error) { return len(b), nil }

// alone returns a call of ServeHTTP and no more.
func (g guard) alone() func() {
	h, r := g.wrap(trending), asked("http://127.0.0.1")
	r.RemoteAddr = "203.0.113.7:4711"
	return func() { h.ServeHTTP(&unsent{make(http.Header)}, r) }
}

func asked(base string) *http.Request {
	r := must(http.NewRequest(http.MethodGet, base+"/api/v1/trending?region=JP", nil))
	r.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	return r
}

// printThrottle shows what limiting clients adds to a request.
func printThrottle(out io.Writer, calls int) {
	var alone, loopback []func()
	for _, g := range guards {
		server := httptest.NewServer(g.wrap(trending))
		defer server.Close()
		alone = append(alone, g.alone())
		loopback = append(loopback, func() {
			resp, err := server.Client().Do(asked(server.URL))
			if err != nil {
				panic(err)
			}
			defer resp.Body.Close() //nolint:errcheck // it was read to its end
			must(io.Copy(io.Discard, resp.Body))
		})
	}
	all, there := medians(alone, 10*calls), medians(loopback, calls)
	fmt.Fprint(out, "\nA request to an http.Handler: ServeHTTP alone, and with net/http and a client on loopback\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "us\tallocs\ton loopback\t  \t")
	for i, g := range guards {
		fmt.Fprintf(w, "%.2f\t%.0f\t%.1f\t  %s\n", all[i]/1000, testing.AllocsPerRun(1000, alone[i]), there[i]/1000, g.name)
	}
	w.Flush()
}
