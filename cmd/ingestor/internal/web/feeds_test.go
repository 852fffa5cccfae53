package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func TestTrending(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	var c view.Chart
	r.get("/api/v1/trending?region=de", &c)
	if c.Region != "DE" || c.Category != "" || c.Stale || !c.FetchedAt.Equal(noon) || len(c.Entries) != 100 {
		t.Fatalf("the chart is of %s %q with %d, fetched %s, stale %v", c.Region, c.Category, len(c.Entries), c.FetchedAt, c.Stale)
	}
	for i, e := range c.Entries {
		if e.Rank != i+1 || e.Video.Title == "" || e.URL != "https://youtu.be/"+e.Video.ID {
			t.Errorf("place %d is %+v", i+1, e)
		}
	}
	r.Clock.Advance(web.DefaultMaxAge + time.Second)
	if r.get("/api/v1/trending?region=DE&category=0", &c); !c.Stale {
		t.Error("it is not stale")
	}
}

func TestWhatWasNotFetched(t *testing.T) {
	r := newRig(t, nil)
	r.missing("/api/v1/trending?region=FR", "nor any other")
	r.Run("trending")
	r.missing("/api/v1/trending?region=FR", "there is no chart of FR; the charts are DE, US")
	r.missing("/api/v1/trending?region=US&category=10", "there is no chart of US/10; the charts are DE, US")
	r.missing("/api/v1/search?q=a&region=UK", "nothing is fetched for region UK; the regions are DE, US")
	r.missing("/api/v1/videos/nonsense", `"nonsense"`)
	r.missing("/api/v1/runs?job=trendng", "the jobs are retention, trending")
}

// missing asks for something that does not exist, and compares the detail.
func (r *rig) missing(path, says string) {
	r.Helper()
	if p := r.problem(http.StatusNotFound, "GET", path, ""); !strings.Contains(p.Detail, says) {
		r.Errorf("%s: it says %q", path, p.Detail)
	}
}

func TestParametersThatAreWrong(t *testing.T) {
	r := newRig(t, nil)
	for path, says := range map[string]string{
		"trending":                             "region is missing",
		"trending?region=":                     "region is missing",
		"trending?region=USA":                  `region is "USA"; send its two letters`,
		"trending?region=U%00":                 `region is "U\x00"`,
		"trending?region=US&region=DE":         "region is there more than once",
		"trending?region=US&category=music":    `category is "music"`,
		"trending?region=US&regoin=DE&a=1":     `"a" is not a parameter; the parameters are region, category; "regoin" is`,
		"trending?region=%zz":                  "cannot be read",
		"trending?region=US;category=1":        "cannot be read",
		"search":                               "q is missing",
		"search?q=%20":                         "q is missing",
		"search?q=a&limit=0":                   `limit is "0"; send a number from 1 to 100`,
		"search?q=a&limit=101":                 "from 1 to 100",
		"search?q=a&limit=1e3":                 "from 1 to 100",
		"search?q=a&since=yesterday":           `since: "yesterday" is not a time`,
		"search?q=a&since=-5h":                 "is not a time",
		"search?q=a&cursor=%21":                "cursor is not one that",
		"search?limit=x&since=y":               `limit is "x"; send a number from 1 to 100`,
		"runs?before=0":                        "before is",
		"runs?before=99999999999999999999":     "before is",
		"runs?limit=-1":                        "limit is",
		"quota?pool=x":                         `"pool" is not a parameter; there are none`,
		"videos/x?q=y":                         `"q" is not a parameter`,
		"regions?" + strings.Repeat("a", 9000): "is not a parameter",
	} {
		p := r.problem(http.StatusBadRequest, "GET", "/api/v1/"+path, "")
		if !strings.Contains(p.Detail, says) || len(p.Detail) > 500 {
			t.Errorf("%s: it says %q", path, p.Detail)
		}
	}
}

func TestVideo(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	var c view.Chart
	r.get("/api/v1/trending?region=US", &c)
	var w view.Watch
	for _, e := range c.Entries[:5] {
		r.get("/api/v1/videos/"+e.Video.ID, &w)
		if w.Video.Title != e.Video.Title || w.Video.Seconds != e.Video.Seconds || w.URL != e.URL || *w.Video.Statistics.Views != *e.Video.Statistics.Views {
			t.Errorf("the video is %+v", w)
		}
	}
}

func TestSearchGoesOn(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	seen := map[string]bool{}
	path := "/api/v1/search?q=t&region=us&since=3650d&limit=30"
	for cursor, pages := "", 0; ; pages++ {
		var v view.Hits
		r.get(path+"&cursor="+url.QueryEscape(cursor), &v)
		for _, h := range v.Hits {
			if seen[h.Video.ID] {
				t.Errorf("%s was found twice", h.Video.ID)
			}
			seen[h.Video.ID] = true
		}
		if cursor = v.Cursor; cursor == "" || pages > 20 {
			break
		}
	}
	var all view.Hits
	if r.get("/api/v1/search?q=t&limit=100", &all); len(seen) == 0 || len(all.Hits) == 0 {
		t.Errorf("%d and %d were found", len(seen), len(all.Hits))
	}
	if r.get("/api/v1/search?q=qqqqqqqqqq", &all); all.Hits == nil || len(all.Hits) != 0 {
		t.Errorf("%+v was found", all.Hits)
	}
	if r.get("/api/v1/search?q=t&since="+noon.Format(time.RFC3339), &all); len(all.Hits) != 0 {
		t.Errorf("%d were published later than now", len(all.Hits))
	}
}

func TestRuns(t *testing.T) {
	r := newRig(t, nil)
	var v struct{ Runs []map[string]any }
	if r.get("/api/v1/runs", &v); v.Runs == nil || len(v.Runs) != 0 {
		t.Errorf("before the first there are %v", v.Runs)
	}
	for range 3 {
		r.Run("trending")
		r.Clock.Advance(time.Hour)
	}
	r.Run("retention")
	a := r.ask("GET", "/api/v1/runs?job=trending&limit=2", "")
	if strings.Contains(a.body, "0001-01-01") {
		t.Errorf("it has a zero time: %s", a.body)
	}
	if r.get("/api/v1/runs?job=trending&limit=2", &v); len(v.Runs) != 2 || v.Runs[0]["id"] != 3.0 || v.Runs[0]["state"] != "done" {
		t.Errorf("the runs are %v", v.Runs)
	}
	if r.get("/api/v1/runs?before=2", &v); len(v.Runs) != 1 || len(v.Runs[0]["work"].([]any)) != 2 {
		t.Errorf("the runs are %v", v.Runs)
	}
	run, err := r.Catalog.Begin(t.Context(), catalog.Start{Job: "trending"})
	r.Must(err)
	if a = r.ask("GET", "/api/v1/runs?limit=1", ""); strings.Contains(a.body, "0001-01-01") || !strings.Contains(a.body, `"work":[]`) {
		t.Errorf("one that is under way is %s", a.body)
	}
	r.Must(run.End(t.Context(), catalog.Outcome{State: catalog.Done}))
}

func TestAskingAgain(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	for _, path := range []string{"/api/v1/trending?region=US", "/api/v1/search?q=t", "/api/v1/runs", "/api/v1/openapi.json"} {
		first := r.ask("GET", path, "")
		tag := first.Header.Get("ETag")
		if a := r.ask("GET", path, "", "If-None-Match", tag); a.StatusCode != http.StatusNotModified || a.body != "" || a.Header.Get("ETag") != tag {
			t.Errorf("%s: %s, %q", path, a.Status, a.body)
		}
		if a := r.ask("GET", path, "", "If-None-Match", `"other"`); a.StatusCode != http.StatusOK || a.body != first.body {
			t.Errorf("%s: %s", path, a.Status)
		}
		if a := r.ask("HEAD", path, ""); a.StatusCode != http.StatusOK || a.body != "" || a.ContentLength != int64(len(first.body)) || a.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %s, %d bytes of %d", path, a.Status, a.ContentLength, len(first.body))
		}
	}
	a := r.ask("GET", "/api/v1/trending?region=US", "")
	if a.Header.Get("Last-Modified") != noon.Format(http.TimeFormat) {
		t.Errorf("the headers are %v", a.Header)
	}
	r.Clock.Advance(time.Hour)
	r.Run("trending")
	if b := r.ask("GET", "/api/v1/trending?region=US", "", "If-None-Match", a.Header.Get("ETag")); b.StatusCode != http.StatusOK {
		t.Errorf("the chart is another one: %s", b.Status)
	}
}

// TestNobodyElsesPageReadsIt pins that there are no CORS headers.
func TestNobodyElsesPageReadsIt(t *testing.T) {
	r := newRig(t, nil)
	a := r.ask("GET", "/api/v1/regions", "", "Origin", "https://evil.example")
	for name := range a.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %s", name, a.Header.Get(name))
		}
	}
}

func TestWhatTakesTooLong(t *testing.T) {
	r := newRig(t, &web.Options{Timeouts: web.Timeouts{Query: time.Nanosecond}})
	for _, path := range []string{"quota", "regions", "runs", "trending?region=US", "search?q=t", "videos/x"} {
		p := r.problem(http.StatusServiceUnavailable, "GET", "/api/v1/"+path, "")
		if p.Detail != "the server took too long" {
			t.Errorf("%s: it says %q", path, p.Detail)
		}
	}
}

func TestTheInsideIsNotTold(t *testing.T) {
	r := newRig(t, nil)
	broken, err := catalog.Open(t.Context(), t.TempDir()+"/secret.db", nil)
	r.Must(err)
	r.Must(broken.Close())
	r.Must(r.server.Update(web.Sources{Sources: view.Sources{Ledger: r.Ledger, Catalog: broken, Runner: r.Runner, Jobs: []*ingest.Job{}}}, r.Ledger.Book()))
	a := r.ask("GET", "/api/v1/regions", "")
	if a.StatusCode != http.StatusInternalServerError || strings.Contains(a.body, "secret") || strings.Contains(a.body, "sql") {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}

// TestTitlesObeyNobody: they hold no characters that terminals and browsers obey.
func TestTitlesObeyNobody(t *testing.T) {
	r := newRig(t, nil)
	r.FetchHostile()
	for _, path := range []string{"/api/v1/trending?region=GB", "/api/v1/videos/dQw4w9WgXcQ", "/api/v1/search?q=sayonara"} {
		a := r.ask("GET", path, "")
		if strings.ContainsAny(a.body, "\u009b\u202e\u2066\x1b") || strings.Contains(a.body, `\u001b`) || !strings.Contains(a.body, "sayonara") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}
