package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTextIsWrittenOnce for all who scrape while it is the same, unless it is an error.
func TestTextIsWrittenOnce(t *testing.T) {
	written, status := 0, http.StatusServiceUnavailable
	s := &shared{Gatherer: prometheus.NewRegistry(), share: time.Hour}
	writer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		written++
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "some metrics")
	})
	h := s.text(writer, writer)
	query := ""
	scrape := func(want int, accept string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/metrics"+query, http.NoBody)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status || w.Body.String() != "some metrics" || written != want {
			t.Errorf("%d, %q, written %d times, not %d", w.Code, w.Body, written, want)
		}
	}
	scrape(1, "")
	scrape(2, "")
	status = http.StatusOK
	scrape(3, "")
	for _, accept := range []string{"", "text/plain;version=0.0.4", "*/*", "whatever;q=0.3"} {
		scrape(3, accept)
	}
	scrape(4, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	for _, query = range []string{"?x=1", "?x=2", "?name=x", "?%zz"} { // they change nothing
		scrape(4, "")
	}
	for i, queries := range [][]string{{"?name[]=a", "?name[]=a&x=1", "?name[]=a&name[]=a"}, {"?name[]=b&name[]=a", "?name[]=a&name[]=b"}, {"?name[]=a%22%20%22b"}} {
		for _, query = range queries {
			scrape(5+i, "")
		}
	}
}
