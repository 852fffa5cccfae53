// Package youtubetest makes what runs need in tests: a ledger, and a client of a simulated
// upstream whose calls that ledger counts.
package youtubetest

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Ledger returns a ledger with so many units a day and a headroom of 5 above them. A nil clock is
// the system's.
func Ledger(store quota.Store, revision int, units int64, clock quota.Clock) (*quota.Ledger, error) {
	costs, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
extends: builtin
revision: %d
upstreams: {youtube: {pools: {units: {quota: %d, headroom: 5}}}}
`, revision, units+5), &book.Options{Builtins: headroom.ReadBuiltin})
	if err != nil {
		return nil, err
	}
	return quota.New(costs, store, &quota.Options{Clock: clock})
}

// Client returns a client of the simulator at an address. A nil log discards.
func Client(ledger *quota.Ledger, address string, log *slog.Logger) (*youtube.Client, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	transport, err := meter.New(ledger, &meter.Options{
		Base: toServer(address), Keys: map[string]meter.KeySource{"youtube": meter.Key("AIza-not-a-key")}, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return youtube.New(&http.Client{Transport: transport}, nil)
}

// toServer sends requests for the upstream to the simulator.
type toServer string

// RoundTrip implements [http.RoundTripper].
func (s toServer) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "http", string(s), string(s)
	return http.DefaultTransport.RoundTrip(out)
}
