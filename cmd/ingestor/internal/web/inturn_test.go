package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestPagesOfThePastAreShared for a second, as the first page is, with what a client asks of
// the answer, and unless something could not be read.
func TestPagesOfThePastAreShared(t *testing.T) {
	r := newRig(t, &web.Options{Share: time.Second})
	r.Run("trending")
	var broken error
	read := r.counted(&broken)
	for _, path := range []string{"/history?pool=youtube%2Funits&range=7d", "/csv/history?pool=youtube%2Funits", "/csv/who?pool=youtube%2Funits", "/runs", "/regions"} {
		shows := func(anew bool, why string, headers ...string) answer {
			t.Helper()
			before := read.Load()
			a := r.ask("GET", path, "", headers...)
			if got := read.Load() > before; got != anew {
				t.Errorf("%s: %s: read anew is %v, %s", path, why, got, a.Status)
			}
			return a
		}
		first := shows(true, "the first", "If-None-Match", `"other"`)
		tag := first.Header.Get("ETag")
		if h := first.Header; first.StatusCode != http.StatusOK || first.body == "" || tag == "" || len(h["Vary"]) != 1 || len(h["Etag"]) != 1 {
			t.Errorf("%s: %s, %v", path, first.Status, h)
		}
		if strings.HasPrefix(path, "/csv/") != (first.Header.Get("Content-Disposition") != "") {
			t.Errorf("%s: %v", path, first.Header)
		}
		if a := shows(false, "within a second", "If-None-Match", tag); a.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s", path, a.Status)
		}
		if a := shows(false, "for another one"); a.body != first.body {
			t.Errorf("%s: another answer:\n%s", path, a.body)
		}
		r.Clock.Advance(time.Second)
		if a := shows(true, "after it", "If-None-Match", tag); a.StatusCode != http.StatusOK && a.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s", path, a.Status)
		}
		r.Clock.Advance(time.Second)
		broken = errors.New("the store is down")
		shows(true, "an outage")
		broken = nil
		shows(true, "the outage is not kept")
		r.Clock.Advance(time.Second)
	}
	if a := r.ask("GET", "/csv/nothing", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("another status becomes %s", a.Status)
	}
}

// slowPast is a catalog whose refusals are read until the reader gives up.
type slowPast struct{ view.Catalog }

func (slowPast) Refusals(ctx context.Context, _ time.Time) ([]catalog.Refusal, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestHistoriesStarveNobody: while more ask for the history than may at once, others are
// answered, and those that find no place are told so.
func TestHistoriesStarveNobody(t *testing.T) {
	r := newRig(t, &web.Options{Timeouts: web.Timeouts{Query: time.Hour}})
	r.Run("trending")
	src := r.Sources()
	src.Catalog = slowPast{src.Catalog}
	r.Must(r.server.Update(web.Sources{Sources: src}, r.Ledger.Book()))
	stop := r.crowd(func(n int) string { return fmt.Sprint([]string{"/history", "/csv/history"}[n%2], "?x=", n) })
	for _, path := range []string{"/readyz", "/livez", "/api/v1/quota", "/runs", "/", "/search?q=live", "/metrics"} {
		if a := r.ask("GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if a := r.ask("GET", "/metrics", ""); !strings.Contains(a.body, `ingestor_requests_turned_away_total{reason="histories"} 34`) {
		t.Error("the metrics do not tell of it")
	}
	stop()
}
