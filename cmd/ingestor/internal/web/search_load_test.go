package web_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// endless is a catalog whose searches end with their context only, or find a lot.
type endless struct {
	view.Catalog
	cut bool
}

func (e endless) Search(ctx context.Context, q catalog.Query) (catalog.Results, error) {
	if e.cut {
		r, err := e.Catalog.Search(ctx, q)
		r.Cut = true
		return r, err
	}
	<-ctx.Done()
	return catalog.Results{}, ctx.Err()
}

// crowd asks for 100 paths whose answers do not end, of which 2 are made at a time and 64 may
// wait. It returns when the others were told that too many wait.
func (r *rig) crowd(path func(n int) string) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	stop = func() { cancel(); all.Wait() }
	r.Cleanup(stop)
	refused := make(chan struct{}, 200)
	for n := range 100 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path(n), http.NoBody)
			if err != nil {
				r.Error(err)
				return
			}
			a, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				return // it was stopped
			}
			_ = a.Body.Close()
			if a.StatusCode == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "" {
				refused <- struct{}{}
			}
		})
	}
	for range 100 - 64 - 2 {
		select {
		case <-refused:
		case <-time.After(patience):
			r.Fatal("nobody is told that too many wait")
		}
	}
	return stop
}

// TestSearchesStarveNobody: while more searches than the catalog can do at once are under
// way, other questions are answered, and those that find no place are told so.
func TestSearchesStarveNobody(t *testing.T) {
	r := newRig(t, &web.Options{Timeouts: web.Timeouts{Search: patience, Query: time.Hour}})
	r.Run("trending")
	src := r.Sources()
	src.Catalog = endless{Catalog: src.Catalog}
	r.Must(r.server.Update(web.Sources{Sources: src}, r.Ledger.Book()))
	stop := r.crowd(func(int) string { return "/api/v1/search?q=a" })
	for _, path := range []string{"/readyz", "/livez", "/api/v1/trending?region=US", "/api/v1/regions", "/"} {
		if a := r.ask("GET", path, ""); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	stop()
}

// TestASearchSaysThatItWasCut by its limits, of time and of videos.
func TestASearchSaysThatItWasCut(t *testing.T) {
	r := newRig(t, &web.Options{Timeouts: web.Timeouts{Search: time.Millisecond}})
	r.Run("trending")
	src := r.Sources()
	catalog := src.Catalog
	src.Catalog = endless{Catalog: catalog}
	r.Must(r.server.Update(web.Sources{Sources: src}, r.Ledger.Book()))
	if p := r.problem(http.StatusServiceUnavailable, "GET", "/api/v1/search?q=a", ""); p.Code != "search_too_broad" {
		t.Errorf("it says %+v", p)
	}
	if a := r.ask("GET", "/search?q=a", ""); !strings.Contains(a.body, "search for more words") {
		t.Errorf("the page does not say so: %s", a.body)
	}
	whole := newRig(t, nil)
	whole.Run("trending")
	src.Catalog = endless{Catalog: whole.Catalog, cut: true}
	whole.Must(whole.server.Update(web.Sources{Sources: src}, whole.Ledger.Book()))
	var found view.Hits
	if whole.get("/api/v1/search?q=live", &found); !found.Cut || len(found.Hits) == 0 {
		t.Errorf("the answer does not say that it is cut: %+v", found)
	}
	if a := whole.ask("GET", "/search?q=live", ""); !strings.Contains(a.body, "Only the 2,000 that were added last") {
		t.Errorf("the page does not say so: %s", a.body)
	}
}
