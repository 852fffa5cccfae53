package pages

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// regionsPage is the data of the template regions.html.
type regionsPage struct {
	Page
	Regions *table
	Unread  bool
}

// Regions serves how fresh the charts and searches are: /regions.
func (b *Board) Regions(w http.ResponseWriter, r *http.Request) {
	s := b.read(r.Context())
	b.show(w, r, http.StatusOK, "regions", &regionsPage{s.judged("Regions", "/regions"), s.regionTable(s.regions()), s.Unread != nil})
}

// regionsInShort says how many charts and searches are fresh.
func (s *state) regionsInShort() sentence {
	all := s.regions()
	fresh := 0
	for i := range all {
		if all[i].State.Level == good {
			fresh++
		}
	}
	switch {
	case len(all) == 0:
		return nil
	case fresh == len(all):
		return say("All ", count(int64(fresh), "chart and search", "charts and searches"), " are fresh")
	}
	return say(view.Number(int64(fresh)), " of ", count(int64(len(all)), "chart and search", "charts and searches"), " are fresh")
}

// region is a chart, or the searches of a job in a region, with how fresh it is.
type region struct {
	view.Feed
	Job       string // that searches; empty for a chart
	State     view.State
	Fetched   *moment
	Last      *moment // end of the last work for it
	LastState catalog.State
	Next      *moment
	Waits     bool // the next run resumes deferred work
}

// regions returns the charts and searches, the stale first.
func (s *state) regions() []region {
	all := make([]region, 0, len(s.Feeds))
	for i := range s.Feeds {
		f := &s.Feeds[i]
		all = append(all, s.region("", f, func(j *job) bool {
			return slices.Contains(j.Charts(), ingest.Chart{Region: f.Region, Category: f.Category})
		}))
	}
	for _, j := range s.Jobs {
		for _, fresh := range j.Fresh {
			f := view.SearchFeed(fresh, s.Now, s.MaxAge)
			all = append(all, s.region(j.Name, &f, func(other *job) bool { return other == j }))
		}
	}
	slices.SortStableFunc(all, func(a, b region) int {
		return cmp.Or(strings.Compare(rank(a.State.Level), rank(b.State.Level)), strings.Compare(a.Name(), b.Name()))
	})
	return all
}

// region shows a feed, with the last run and the next one of the jobs that fetch it.
func (s *state) region(job string, f *view.Feed, fetches func(*job) bool) region {
	r := region{Feed: *f, Job: job, State: f.Standing()}
	if f.FetchedAt != nil {
		r.Fetched = s.at(*f.FetchedAt)
	}
	s.addRuns(&r, fetches)
	return r
}

// regionTable returns the table of regions: the columns of the view, and when each was
// last worked on and is next.
func (s *state) regionTable(all []region) *table {
	if len(all) == 0 {
		return nil
	}
	feeds := make([]view.Feed, len(all))
	for i := range all {
		feeds[i] = all[i].Feed
	}
	t := view.FeedTable(feeds)
	for i := range t.Columns { // on a phone, and below them the runs
		t.Columns[i].Spare = t.Columns[i].Name != "region" && t.Columns[i].Name != "state" && t.Columns[i].Name != "fetched"
	}
	t.Columns = append(t.Columns, view.Column{Name: "last run"}, view.Column{Name: "next run"})
	for i := range all {
		r := &all[i]
		first := link{text: r.title(), note: r.Job}
		if r.Job == "" {
			first.id, first.to = "region-"+r.Name(), "/regions/"+url.PathEscape(r.Region)
			if r.Category != "" {
				first.to += "?category=" + url.QueryEscape(r.Category)
			}
		}
		t.Rows[i][0] = first
		t.Rows[i] = append(t.Rows[i], r.lastRun(), r.nextRun())
	}
	shown := s.table("How fresh the charts and searches of each region are", true, t)
	shown.Class = "lines"
	return shown
}

func (r *region) title() string { return chartName(r.Region, r.Category) }

func (r *region) lastRun() any {
	switch {
	case r.Last == nil:
		return "none in 24 h"
	case r.LastState == catalog.Done:
		return r.Last
	}
	return noted{r.Last, string(r.LastState)}
}

func (r *region) nextRun() any {
	switch {
	case r.Next == nil:
		return "none"
	case r.Waits:
		return noted{r.Next, "resumes"}
	}
	return r.Next
}

// rank orders levels, the worst first.
func rank(l level) string { return map[level]string{bad: "0", warn: "1", good: "2"}[l] }

// addRuns adds the last work and the next run of the jobs that fetch a region.
func (s *state) addRuns(r *region, fetches func(*job) bool) {
	var last, next time.Time
	for i := range s.runs {
		j := s.job(s.runs[i].Job)
		if j == nil || !fetches(j) {
			continue
		}
		for _, w := range s.runs[i].Work {
			if at := endOf(&s.runs[i], &w); w.Region == r.Region && at.After(last) {
				last, r.Last, r.LastState = at, s.at(at), w.State
			}
		}
	}
	for _, j := range s.Jobs {
		if !fetches(j) {
			continue
		}
		if o := s.Outlook(j); !o.At.IsZero() && (next.IsZero() || o.At.Before(next)) {
			next, r.Next, r.Waits = o.At, s.at(o.At), o.Resumes
		}
	}
}

// chart is the data of the template chart.html.
type chart struct {
	Page
	Name       string
	Feed       *region
	Categories []region // the charts of the region
	Entries    []view.Entry
	CSV        string
	Problem    string
}

// Region serves the chart of a region: /regions/{region}?category=.
func (b *Board) Region(w http.ResponseWriter, r *http.Request) {
	name, category := view.Plain(strings.ToUpper(r.PathValue("region"))), ingest.Category(view.Plain(r.URL.Query().Get("category")))
	s := b.read(r.Context())
	p := &chart{Page: s.judged("Chart of "+chartName(name, category), "/regions"), Name: chartName(name, category)}
	for _, f := range s.regions() {
		if f.Region != name || f.Job != "" {
			continue
		}
		p.Categories = append(p.Categories, f)
		if f.Category == category {
			p.Feed = &f
		}
	}
	if p.Feed == nil && s.Unread == nil {
		b.Problem(w, r, http.StatusNotFound, "No job fetches a chart of "+p.Name+", and none was fetched")
		return
	}
	all, err := b.chart(r.Context(), s, name, category)
	switch p.Entries = all.Entries; {
	case errors.Is(err, catalog.ErrNotFound):
		p.Problem = "The chart was never fetched completely. It is shown once all of its pages are fetched"
	case err != nil:
		b.o.Log.Warn("show a chart", "region", name, "error", err)
		p.Problem = "The catalog cannot be read now. To look for damage: ingestor doctor"
	}
	if len(p.Entries) > 0 {
		p.CSV = "/csv/chart?" + url.Values{"region": {name}, "category": {category}}.Encode()
	}
	b.show(w, r, http.StatusOK, "chart", p)
}

// Problem serves an error page with this status. The text is a sentence without its full
// stop.
func (b *Board) Problem(w http.ResponseWriter, r *http.Request, status int, text string) {
	s := b.blank()
	b.show(w, r, status, "problem", &struct {
		Page
		Says string
	}{s.page(http.StatusText(status), "", false), view.Plain(text)})
}
