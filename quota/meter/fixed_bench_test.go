package meter_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// BenchmarkFixedPrice is a call of a fixed price, without the network.
func BenchmarkFixedPrice(b *testing.B) {
	l := newLedger(b, strings.ReplaceAll(prices, "quota: 100,", "quota: 1000000000,"), quota.NewSimClock(noon))
	answer := &http.Response{StatusCode: 200, Body: http.NoBody}
	m := newTransport(b, l, &meter.Options{Logger: discard, Base: roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil })})
	req, _ := http.NewRequest("GET", items, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.RoundTrip(req); err != nil { //nolint:bodyclose // there is none
			b.Fatal(err)
		}
	}
}
