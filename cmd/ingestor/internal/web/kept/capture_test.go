package kept_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
)

// TestCapture: one client's answer serves all, so what that client has or accepts does not count.
func TestCapture(t *testing.T) {
	status := http.StatusOK
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("the page sees %v", r.Header)
		}
		w.Header()["Vary"] = []string{"Accept", "Accept-Encoding"}
		w.Header().Set("ETag", `"of the page"`)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "a page")
	})
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("If-None-Match", "*")
	r.Header.Set("Accept-Encoding", "gzip")
	a, err := kept.Capture(page, r)
	if err != nil || kept.SendOther(httptest.NewRecorder(), err) {
		t.Fatalf("%v", err)
	}
	w := send(a)
	if h := w.Header(); w.Body.String() != "a page" || len(h["Etag"]) != 1 || h.Get("ETag") == `"of the page"` || !slices.Equal(h["Vary"], []string{"Accept", "Accept-Encoding"}) {
		t.Errorf("%v: %s", h, w.Body)
	}
	status = http.StatusNotFound
	_, err = kept.Capture(page, r)
	w = httptest.NewRecorder()
	if !kept.SendOther(w, err) || w.Code != http.StatusNotFound || w.Body.String() != "a page" || w.Header().Get("ETag") != `"of the page"` {
		t.Errorf("%v: %d %s", err, w.Code, w.Body)
	}
}
