package web_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// TestTimeEndsAnswers that say how old something is, or that retention is about to delete.
func TestTimeEndsAnswers(t *testing.T) {
	r, w := newWatched(t, &web.Options{Share: time.Second})
	stale := func(want bool) {
		t.Helper()
		var c view.Chart
		if r.get(ofUS, &c); c.Stale != want {
			t.Errorf("stale is %v at %s", c.Stale, r.Clock.Now())
		}
	}
	stale(false)
	r.Clock.Advance(web.DefaultMaxAge)
	stale(false)
	r.Clock.Advance(time.Second)
	stale(true)
	r.reads(w, 0, ofUS, "it stays stale")
	r.Clock.Set(noon.Add(time.Hour))
	stale(false)

	const ages = "/api/v1/regions"
	age := func(want int64) {
		t.Helper()
		var v struct{ Regions []view.Feed }
		if r.get(ages, &v); *v.Regions[0].AgeSeconds != want {
			t.Errorf("its age is %d, not %d", *v.Regions[0].AgeSeconds, want)
		}
	}
	age(3600)
	r.reads(w, 0, ages, "within a second")
	r.Clock.Advance(time.Second)
	age(3601)
	const moving = "/api/v1/search?q=t&since=3650d"
	r.ask("GET", moving, "")
	r.reads(w, 0, moving, "within a second")
	r.Clock.Advance(time.Second)
	r.reads(w, 1, moving, "3650d are others now")

	var c view.Chart
	r.get(ofUS, &c)
	ends := r.Runner.Expires(&c.Entries[0].Video.Video)
	for _, path := range []string{ofUS, "/api/v1/search?q=t", "/api/v1/videos/" + c.Entries[0].Video.ID} {
		r.Clock.Set(ends.Add(-time.Second))
		r.ask("GET", path, "")
		r.reads(w, 0, path, "it is due in a second")
		r.Clock.Set(ends)
		r.reads(w, 1, path, "it is due")
		r.reads(w, 1, path, "it is overdue")
	}
}

// counted counts how often the pools are read, which fails while broken is an error.
func (r *rig) counted(broken *error) *atomic.Int64 {
	read := new(atomic.Int64)
	gate := func(context.Context) error {
		read.Add(1)
		return *broken
	}
	r.Store.Before.Store(&gate)
	return read
}

// TestTheFirstPageIsShared for a second, unless something could not be read, the catalog
// changed, or a person did something here.
func TestTheFirstPageIsShared(t *testing.T) {
	r := newActedBy(t, &web.Options{Share: time.Second})
	r.Run("trending")
	var broken error
	read := r.counted(&broken)
	shows := func(anew, blocked bool, why string) {
		t.Helper()
		before := read.Load()
		a := r.ask("GET", "/", "")
		if got := read.Load() > before; got != anew || a.StatusCode != http.StatusOK || strings.Contains(a.body, "Blocked until") != blocked {
			t.Errorf("%s: read anew is %v, %s\n%s", why, got, a.Status, a.body)
		}
	}
	shows(true, false, "the first")
	shows(false, false, "within a second")
	r.Clock.Advance(time.Second)
	shows(true, false, "after it")
	r.Must(save(t.Context(), r.Catalog, &catalog.Page{Next: "more"}))
	shows(true, false, "the catalog has changed")
	shows(false, false, "and stays")
	r.Clock.Advance(-time.Millisecond)
	shows(true, false, "the clock was set back")
	src := *r.server.Current() // its catalog counts no changes, as PostgreSQL
	src.Catalog = struct{ view.Catalog }{src.Catalog}
	r.Must(r.server.Update(src, r.Ledger.Book()))
	shows(true, false, "the sources are others")
	if a := r.send("block", r.fill("/act/block"+units, "for", "2h", "reason", "to see")); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%s\n%s", a.Status, a.body)
	}
	shows(true, true, "a person blocked the pool here")
	r.Must(r.Ledger.Admin().Unblock(t.Context(), quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}))
	shows(false, true, "another process lifted the block")
	r.Clock.Advance(time.Second)
	shows(true, false, "a second after that")
	r.Clock.Advance(time.Second)
	broken = errors.New("the store is down")
	shows(true, false, "an outage")
	broken = nil
	shows(true, false, "the outage is not kept")
}

// TestCachesAskEachTime: a cache of a client or a proxy would show a video that was deleted.
func TestCachesAskEachTime(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	var c view.Chart
	r.get(ofUS, &c)
	video, title := c.Entries[0].Video.ID, c.Entries[0].Video.Title
	showing := 0
	for _, path := range []string{
		ofUS, "/api/v1/videos/" + video, "/api/v1/search?q=" + url.QueryEscape(title), "/regions/US", "/search?q=" + url.QueryEscape(title), "/csv/chart?region=US",
		"/", "/regions", "/runs", "/runs/1", "/history", "/fleet", "/csv/regions", "/api/v1/quota", "/api/v1/regions", "/api/v1/runs", "/nothing",
	} {
		a := r.ask("GET", path, "")
		if how := a.Header.Get("Cache-Control"); how != "no-cache" && how != "no-store" {
			t.Errorf("%s may be kept: %q", path, how)
		}
		if strings.Contains(a.body, video) {
			showing++
		}
		if tag := a.Header.Get("ETag"); tag != "" {
			if again := r.ask("GET", path, "", "If-None-Match", tag); again.StatusCode != http.StatusNotModified || again.Header.Get("Cache-Control") != "no-cache" {
				t.Errorf("%s: %s, %q", path, again.Status, again.Header.Get("Cache-Control"))
			}
		}
	}
	if showing != 6 {
		t.Errorf("%d of 6 show the video", showing)
	}
}

// TestOnlyActionsEndTheFirstPage: anybody may send a form. Without the token of a person it
// does nothing, so the page stays as it is.
func TestOnlyActionsEndTheFirstPage(t *testing.T) {
	r := newActedBy(t, &web.Options{Share: time.Second})
	var read atomic.Int64
	gate := func(context.Context) error { //nolint:unparam // the type has an error
		read.Add(1)
		return nil
	}
	r.Store.Before.Store(&gate)
	src := *r.server.Current() // its catalog counts no changes, as PostgreSQL: that of an action would end the page, too
	src.Catalog = struct{ view.Catalog }{src.Catalog}
	r.Must(r.server.Update(src, r.Ledger.Book()))
	v := r.fill("/act/block"+units, "for", "2h", "reason", "to see")
	for _, c := range []struct {
		token  string
		status int
		anew   bool
	}{{"", 403, false}, {strings.Repeat("x", 40), 403, false}, {strings.Repeat("e", 40), 403, false}, {annas, 303, true}} {
		r.ask("GET", "/", "")
		v.Set("token", c.token)
		if a := r.send("block", v); a.StatusCode != c.status {
			t.Errorf("%q: %s\n%s", c.token, a.Status, a.body)
		}
		before := read.Load()
		r.ask("GET", "/", "")
		if got := read.Load() > before; got != c.anew {
			t.Errorf("after a form with the token %q the page is read anew: %v", c.token, got)
		}
	}
}

// TestNotModifiedOverHTTP2 has no length: that of the plain answer is not that of the
// compressed one, and HTTP/2 sends what it is given.
func TestNotModifiedOverHTTP2(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	front := httptest.NewUnstartedServer(r.server)
	front.EnableHTTP2 = true
	front.StartTLS()
	defer front.Close()
	ask := func(headers ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+ofUS, http.NoBody)
		r.Must(err)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		a, err := front.Client().Do(req)
		r.Must(err)
		r.Must(a.Body.Close())
		if a.ProtoMajor != 2 {
			t.Fatalf("it is %s", a.Proto)
		}
		return a
	}
	ask() //nolint:bodyclose // it is closed; now the answer is kept
	for _, form := range []string{"gzip", "identity"} {
		tag := ask("Accept-Encoding", form).Header.Get("ETag")  //nolint:bodyclose // it is read and closed
		a := ask("Accept-Encoding", form, "If-None-Match", tag) //nolint:bodyclose // it is read and closed
		if _, has := a.Header["Content-Length"]; a.StatusCode != http.StatusNotModified || has || strings.HasSuffix(tag, `.gz"`) != (form == "gzip") {
			t.Errorf("%s: %s, %v", form, a.Status, a.Header)
		}
	}
}
