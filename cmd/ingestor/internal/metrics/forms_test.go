package metrics_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// TestForms: scrapers get the form, the metrics and the compression that they ask for.
func TestForms(t *testing.T) {
	r := newRig(t)
	m := metrics.New(&metrics.Options{Log: slog.New(slog.DiscardHandler), Share: time.Hour})
	m.SetSources(view.Sources{Ledger: r.ledger, Catalog: r.catalog})
	h := m.Handler()
	scrape := func(query string, headers ...string) (http.Header, string) {
		t.Helper()
		q := httptest.NewRequest(http.MethodGet, "/metrics"+query, http.NoBody)
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if w.Code != http.StatusOK || !slices.Contains(w.Header()["Vary"], "Accept") || !slices.Contains(w.Header()["Vary"], "Accept-Encoding") {
			t.Fatalf("%s: %d, %v", query, w.Code, w.Header())
		}
		return w.Header(), w.Body.String()
	}
	_, plain := scrape("")
	header, body := scrape("", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(body))
	r.must(err)
	unzipped, err := io.ReadAll(z)
	r.must(err)
	if header.Get("Content-Encoding") != "gzip" || string(unzipped) != plain {
		t.Errorf("in gzip it is another one: %v", header)
	}
	if _, one := scrape("?name[]=headroom_ledger_up"); len(one) > 300 || !strings.Contains(one, "headroom_ledger_up 1") {
		t.Errorf("one metric is\n%s", one)
	}
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	if header, body := scrape("", "Accept", protobuf); !strings.HasPrefix(header.Get("Content-Type"), "application/vnd.google.protobuf") || body == plain {
		t.Errorf("in another form it is %v", header)
	}
}
