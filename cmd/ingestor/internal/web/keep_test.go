package web_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/testing/childtest"
)

func TestMain(m *testing.M) { childtest.Main(m, map[string]childtest.Task{"delete": deleteVideos}) }

// deleteVideos deletes the first video of the chart of the US each time, and then says its id.
func deleteVideos(path string, begin func() bool, out io.Writer) error {
	ctx := context.Background()
	c, err := catalog.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	for begin() {
		chart, err := c.Chart(ctx, "US", "")
		if err != nil {
			return err
		}
		id := chart.Entries[0].Video.ID
		if err := save(ctx, c, &catalog.Page{Gone: []string{id}, Next: "more"}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, id); err != nil {
			return err
		}
	}
	return c.Close()
}

// save saves a page as a run does.
func save(ctx context.Context, c *catalog.Catalog, p *catalog.Page) error {
	run, err := c.Begin(ctx, catalog.Start{Job: "elsewhere"})
	if err != nil {
		return err
	}
	if p.Cursor, err = c.Cursor(ctx, "elsewhere", "work"); err != nil {
		return err
	}
	if _, err = run.Save(ctx, p); err != nil {
		return err
	}
	return run.End(ctx, catalog.Outcome{State: catalog.Done})
}

const ofUS = "/api/v1/trending?region=US"

// TestDeletedVideosAreGone from each answer to a request that is sent after the deletion
// was committed, by another process.
func TestDeletedVideosAreGone(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	child := childtest.Start(t, "delete", r.Catalog.Path())
	var mu sync.Mutex
	var gone []string
	check := func(paths ...string) {
		for _, path := range paths {
			mu.Lock()
			before := gone
			mu.Unlock()
			a := r.ask("GET", path, "")
			for _, id := range before {
				if a.StatusCode != http.StatusOK || strings.Contains(a.body, `"`+id+`"`) {
					t.Errorf("%s shows %s, which was deleted: %s", path, id, a.Status)
				}
			}
		}
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					check(ofUS, "/api/v1/search?q=t&limit=100")
				}
			}
		})
	}
	const deletions = 10
	for range deletions {
		child.Begin()
		id := child.Line()
		if id == "" {
			t.Fatal(child.Rest())
		}
		mu.Lock()
		gone = append(gone, id)
		mu.Unlock()
		r.missing("/api/v1/videos/"+id, "was never fetched")
		check(ofUS, "/api/v1/search?q=t&limit=100", ofUS)
	}
	close(done)
	readers.Wait()
	var c view.Chart
	if r.get(ofUS, &c); len(c.Entries) != 100-deletions {
		t.Errorf("%d of the chart are left", len(c.Entries))
	}
}

// watched is a catalog that counts what is read of it.
type watched struct {
	*catalog.Catalog
	read   atomic.Int64
	chart  func(context.Context) error // is called before each chart
	search func(catalog.Query)         // is called before each search
}

func (w *watched) Chart(ctx context.Context, region, category string) (catalog.Chart, error) {
	w.read.Add(1)
	if w.chart != nil {
		if err := w.chart(ctx); err != nil {
			return catalog.Chart{}, err
		}
	}
	return w.Catalog.Chart(ctx, region, category)
}

func (w *watched) Search(ctx context.Context, q catalog.Query) (catalog.Results, error) {
	w.read.Add(1)
	if w.search != nil {
		w.search(q)
	}
	return w.Catalog.Search(ctx, q)
}

func (w *watched) Video(ctx context.Context, id string) (catalog.Video, error) {
	w.read.Add(1)
	return w.Catalog.Video(ctx, id)
}

func (w *watched) Feeds(ctx context.Context) ([]catalog.Feed, error) {
	w.read.Add(1)
	return w.Catalog.Feeds(ctx)
}

// newWatched returns a server of a watched catalog with the charts of a run.
func newWatched(t *testing.T, o *web.Options) (*rig, *watched) {
	t.Helper()
	r := newRig(t, o)
	r.Run("trending")
	w := &watched{Catalog: r.Catalog}
	r.update(w)
	return r, w
}

// update gives a catalog to the server, as a reload does.
func (r *rig) update(c view.Catalog) {
	r.Helper()
	src := r.Sources()
	src.Catalog = c
	r.Must(r.server.Update(web.Sources{Sources: src}, r.Ledger.Book()))
}

// reads asks for an answer, and compares how often the catalog is read for it.
func (r *rig) reads(w *watched, want int64, path, why string, headers ...string) answer {
	r.Helper()
	before := w.read.Load()
	a := r.ask("GET", path, "", headers...)
	if got := w.read.Load() - before; got != want {
		r.Errorf("%s, %s: the catalog was read %d times, not %d", path, why, got, want)
	}
	return a
}

func TestAnswersAreKept(t *testing.T) {
	r, w := newWatched(t, nil)
	var c view.Chart
	r.get(ofUS, &c)
	video := "/api/v1/videos/" + c.Entries[0].Video.ID
	paths := []string{ofUS, "/api/v1/search?q=t", "/api/v1/search?q=t&since=2026-01-01", video}
	for _, path := range paths {
		first := r.ask("GET", path, "")
		if a := r.reads(w, 0, path, "again"); a.body != first.body || a.Header.Get("Last-Modified") != first.Header.Get("Last-Modified") || a.Header.Get("Cache-Control") != first.Header.Get("Cache-Control") {
			t.Errorf("%s is kept otherwise: %v", path, a.Header)
		}
		tag := first.Header.Get("ETag")
		if a := r.reads(w, 0, path, "by its tag", "If-None-Match", tag); a.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s", path, a.Status)
		}
		if a := r.ask("HEAD", path, ""); a.ContentLength != int64(len(first.body)) || a.Header.Get("ETag") != tag || a.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v", path, a.Header)
		}
		z := r.reads(w, 0, path, "compressed", "Accept-Encoding", "gzip")
		if path == video && z.body == first.body { // too short to gain
			continue
		}
		unzipped, err := gzip.NewReader(strings.NewReader(z.body))
		r.Must(err)
		body, err := io.ReadAll(unzipped)
		r.Must(err)
		if string(body) != first.body || z.ContentLength != int64(len(z.body)) || len(z.body) >= len(body) {
			t.Errorf("%s, compressed: %v", path, z.Header)
		}
		if first.Header.Get("RateLimit") == r.ask("GET", path, "").Header.Get("RateLimit") {
			t.Errorf("%s: the limit of the client is kept, too", path)
		}
	}
	other, err := catalog.Open(t.Context(), r.Catalog.Path(), nil)
	r.Must(err)
	r.Must(save(t.Context(), other, &catalog.Page{Next: "more"}))
	r.Must(other.Close())
	for _, path := range paths {
		r.reads(w, 1, path, "someone wrote to the file")
	}
	r.Must(r.Catalog.ForgetRuns(t.Context(), noon.Add(-time.Hour)))
	r.Must(save(t.Context(), r.Catalog, &catalog.Page{Next: "more"}))
	r.reads(w, 1, ofUS, "this process wrote to the file")
	r.update(w)
	r.reads(w, 1, ofUS, "the sources are others")
	r.update(struct{ view.Catalog }{w})
	r.ask("GET", ofUS, "")
	r.reads(w, 1, ofUS, "the catalog counts no changes, as PostgreSQL")
}

func TestErrorsAreNotKept(t *testing.T) {
	r, w := newWatched(t, nil)
	broken := errors.New("broken")
	w.chart = func(context.Context) error { return broken }
	if a := r.ask("GET", ofUS, ""); a.StatusCode != http.StatusInternalServerError {
		t.Errorf("%s", a.Status)
	}
	broken = nil
	if a := r.ask("GET", ofUS, ""); a.StatusCode != http.StatusOK {
		t.Errorf("the error is kept: %s", a.Status)
	}
	for range 2 {
		before := w.read.Load()
		r.missing("/api/v1/trending?region=FR", "there is no chart of FR")
		if w.read.Load() == before {
			t.Error("what is missing is kept")
		}
	}
}

// waiting returns how many requests wait for what another one makes.
func waiting() (n int) {
	for one := range strings.SplitSeq(stacks(), "\n\n") {
		state, calls, _ := strings.Cut(one, "\n")
		if strings.Contains(state, "[select") && strings.HasPrefix(calls, "github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept.(*Store).Do(") {
			n++
		}
	}
	return n
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	all := make([]byte, 4<<20)
	return string(all[:runtime.Stack(all, true)])
}

// waitFor waits for a condition.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestWhoHangsUpDisturbsNobody who waits for the same answer.
func TestWhoHangsUpDisturbsNobody(t *testing.T) {
	r, w := newWatched(t, nil)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	w.chart = func(ctx context.Context) error {
		begun <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	before := w.read.Load()
	ctx, hangUp := context.WithCancel(t.Context())
	var all sync.WaitGroup
	ended := make(chan struct{})
	all.Go(func() {
		defer close(ended)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+ofUS, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		if a, err := plain.RoundTrip(req); err == nil {
			_ = a.Body.Close()
			t.Errorf("it is answered: %s", a.Status)
		}
	})
	<-begun
	for range 10 {
		all.Go(func() {
			if a := r.ask("GET", ofUS, ""); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"entries"`) {
				t.Errorf("who waits gets %s: %.100s", a.Status, a.body)
			}
		})
	}
	waitFor(t, "ten to wait", func() bool { return waiting() == 10 })
	hangUp()
	<-ended
	for range 20 { // meanwhile the server notices it
		r.ask("GET", "/livez", "")
	}
	close(release)
	all.Wait()
	if got := w.read.Load() - before; got != 1 {
		t.Errorf("%d charts were read for 10 clients", got)
	}
}

// TestNobodyWaitsForTheTurnOfAnother who asks for the same search.
func TestNobodyWaitsForTheTurnOfAnother(t *testing.T) {
	r, w := newWatched(t, &web.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeouts: web.Timeouts{Search: time.Hour, Query: time.Hour}})
	begun, next := make(chan string, 100), make(chan struct{})
	w.search = func(q catalog.Query) {
		begun <- q.Text
		<-next
	}
	var all sync.WaitGroup
	ask := func(client, text string) {
		all.Go(func() {
			if a := r.ask("GET", "/api/v1/search?q="+text, "", "X-Forwarded-For", client); a.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", text, a.Status)
			}
		})
	}
	for i := range 2 {
		ask("203.0.113.1", fmt.Sprint("running", i))
		<-begun
	}
	for i, text := range []string{"a", "b", "c", "same"} {
		ask("203.0.113.1", text)
		waitFor(t, "a search to wait", func() bool { return r.server.Waiting() == i+1 })
	}
	ask("203.0.113.2", "same")
	waitFor(t, "the other client to wait", func() bool { return r.server.Waiting() == 5 })
	var order []string
	for range 2 {
		next <- struct{}{}
		order = append(order, <-begun)
	}
	if !slices.Equal(order, []string{"a", "same"}) {
		t.Errorf("the searches are %v: a client waits for the turn of another", order)
	}
	close(next)
	all.Wait()
	close(begun)
	for text := range begun {
		if text == "same" {
			t.Error("the one that waited longer searched again")
		}
	}
}

// TestNoAnswerIsForAToken: what a token may read, nobody is given without it.
func TestNoAnswerIsForAToken(t *testing.T) {
	r := newRig(t, &web.Options{Share: time.Hour})
	reader, err := access.New("reader", strings.Repeat("r", 40), access.Read)
	r.Must(err)
	other, err := access.New("other", strings.Repeat("o", 40), access.Reserve)
	r.Must(err)
	r.Must(r.server.Update(web.Sources{Sources: r.Sources(), Tokens: []*access.Token{reader, other}}, r.Ledger.Book()))
	for _, path := range []string{"/v1/pools", "/v1/pools?upstream=youtube"} {
		for range 2 {
			for token, want := range map[string]int{"r": http.StatusOK, "o": http.StatusForbidden, "x": http.StatusUnauthorized} {
				a := r.ask("GET", path, "", "Authorization", "Bearer "+strings.Repeat(token, 40))
				if a.StatusCode != want || want != http.StatusOK && strings.Contains(a.body, "pools") {
					t.Errorf("%s with %s: %s, %s", path, token, a.Status, a.body)
				}
			}
		}
	}
}
