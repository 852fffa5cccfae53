package notify

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPing: a switch is asked with /start and the exit code, again if it does not answer, and the log
// does not show its address.
func TestPing(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if asked = append(asked, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery+" "+string(text)); len(asked) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	var log strings.Builder
	address := server.URL + "/s3cret/{job}?create=1"
	p := NewPinger(slog.New(slog.NewTextHandler(&log, nil)))
	p.Set(address)
	p.Begin("charts") // it is tried again, and all the same comes first
	p.End("charts", 75, "the quota is used up")
	p.Wait(time.Minute)
	want := []string{"POST /s3cret/charts/start?create=1 ", "POST /s3cret/charts/start?create=1 ", "POST /s3cret/charts/75?create=1 the quota is used up"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	server.Close()
	p.End("charts", 0, "")
	p.Wait(time.Minute)
	if !strings.Contains(log.String(), "cannot ping") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log says %s", log.String())
	}
	p.Set("")
	p.End("charts", 0, "")
	(*Pinger)(nil).End("charts", 0, "")
	p.Wait(time.Minute)
}
