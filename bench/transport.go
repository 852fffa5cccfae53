package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// A wrapping is a way to make a call: bare, or metered.
type wrapping struct {
	name string
	wrap func(base http.RoundTripper, host string) (http.RoundTripper, context.Context)
}

var wrappings = []wrapping{
	{"bare", func(base http.RoundTripper, _ string) (http.RoundTripper, context.Context) {
		return base, context.Background()
	}},
	{"metered, not metered host", func(base http.RoundTripper, _ string) (http.RoundTripper, context.Context) {
		return metered(base, "elsewhere.example.com", nil), context.Background()
	}},
	{"metered", func(base http.RoundTripper, host string) (http.RoundTripper, context.Context) {
		return metered(base, host, nil), context.Background()
	}},
	{"metered, with key, job and region", func(base http.RoundTripper, host string) (http.RoundTripper, context.Context) {
		ctx := meter.WithRegion(meter.WithJob(context.Background(), "trending"), "JP")
		return metered(base, host, map[string]meter.KeySource{"youtube": meter.Key(key)}), ctx
	}},
}

// metered is a transport that goes by today's prices, with more quota than is asked
// for.
func metered(base http.RoundTripper, host string, keys map[string]meter.KeySource) http.RoundTripper {
	costs := must(book.Parse("bench.yaml", fmt.Appendf(nil, `
extends: builtin
upstreams:
  youtube:
    hosts: [%q]
    pools:
      units: {quota: 2000000000, windows: [{per: 24h}, {per: day, zone: America/Los_Angeles}, {per: 10m, quota: 2000000000}]}
`, host), &book.Options{Builtins: headroom.ReadBuiltin}))
	ledger := must(quota.New(costs, memstore.New(nil), nil))
	return must(meter.New(ledger, &meter.Options{Base: base, Keys: keys, Logger: slog.New(slog.DiscardHandler)}))
}

// answered is an upstream that takes no time.
type answered struct{ resp http.Response }

func (a *answered) RoundTrip(*http.Request) (*http.Response, error) { return &a.resp, nil }

// key opens nothing.
const key = "AIzaSomeKeyOfTheUsualLengthWhichIs39Bytes"

// listing is a call as an SDK makes it.
func listing(ctx context.Context, base string) *http.Request {
	req := must(http.NewRequestWithContext(ctx, "GET", base+"/youtube/v3/videos?alt=json&chart=mostPopular&maxResults=50&part=snippet&prettyPrint=false&regionCode=JP", nil))
	req.Header.Set("User-Agent", "google-api-go-client/0.5")
	req.Header.Set("X-Goog-Api-Client", "gl-go/1.26 gdcl/0.309.0")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Goog-Api-Key", key) // as it goes on the wire, whoever sets it
	return req
}

// overNothing returns a call that takes no time but that of the wrapping.
func (w wrapping) overNothing() func() {
	rt, ctx := w.wrap(&answered{http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}}, "youtube.googleapis.com")
	req := listing(ctx, "https://youtube.googleapis.com")
	return func() { must(rt.RoundTrip(req)) } //nolint:bodyclose // the response has no body
}

// overLoopback returns a call to a server, all of whose answer is read.
func (w wrapping) overLoopback(server *httptest.Server, base *http.Transport) func() {
	rt, ctx := w.wrap(base, strings.TrimPrefix(server.URL, "http://"))
	client := &http.Client{Transport: rt}
	return func() {
		resp, err := client.Do(listing(ctx, server.URL))
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read to its end
		must(io.Copy(io.Discard, resp.Body))
	}
}

// printTransport shows what metering adds to a call.
func printTransport(out io.Writer, calls int) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items": []}`)
	}))
	defer server.Close()
	var nothing, loopback []func()
	for _, w := range wrappings {
		base := &http.Transport{}
		defer base.CloseIdleConnections()
		nothing, loopback = append(nothing, w.overNothing()), append(loopback, w.overLoopback(server, base))
	}
	alone, there := medians(nothing, 10*calls), medians(loopback, calls)
	fmt.Fprint(out, "\nA call of an http.RoundTripper: around one that does nothing, and around net/http with a server on loopback\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "adds us\tallocs\ton loopback\tof us\t  \t")
	for i, one := range wrappings {
		fmt.Fprintf(w, "%.2f\t%.0f\t%.2f\t%.1f\t  %s\n", (alone[i]-alone[0])/1000, testing.AllocsPerRun(1000, nothing[i]),
			(there[i]-there[0])/1000, there[i]/1000, one.name)
	}
	w.Flush()
}

// medians times calls one by one, in turns and each time in another order: a slow
// moment of the machine hits all of them, and few calls of each, and none always
// comes after the same one.
func medians(turns []func(), calls int) []float64 {
	times := make([][]float64, len(turns))
	for n := range calls + 100 {
		for _, i := range rand.Perm(len(turns)) {
			began := time.Now()
			turns[i]()
			took := time.Since(began)
			if n >= 100 { // connections are up, and caches warm
				times[i] = append(times[i], float64(took))
			}
		}
	}
	all := make([]float64, len(turns))
	for i := range times {
		all[i] = team.Median(times[i])
	}
	return all
}
