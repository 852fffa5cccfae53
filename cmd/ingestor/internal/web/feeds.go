package web

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// quota returns the state of the pools, and the verdict of the first page.
func (s *Server) quota(r *http.Request) (any, error) {
	all, err := s.current().Ledger.View().Usage(r.Context(), "", "")
	if err != nil {
		return nil, err
	}
	return verdict.Standing{Pools: view.Pools(all), Verdict: s.standing(r.Context()).Verdict().Said()}, nil
}

func (s *Server) regions(r *http.Request) (any, error) {
	all, err := s.feeds(r)
	if err != nil {
		return nil, err
	}
	return s.brief(struct {
		Regions []view.Feed `json:"regions"`
	}{all}), nil // their ages grow
}

func (s *Server) feeds(r *http.Request) ([]view.Feed, error) {
	src := s.current()
	feeds, err := src.Catalog.Feeds(r.Context())
	if err != nil {
		return nil, err
	}
	return view.Feeds(feeds, src.Jobs, s.o.Clock.Now(), s.o.MaxAge), nil
}

// trending returns the last complete chart of a region and category.
func (s *Server) trending(r *http.Request) (any, error) {
	q := read(r)
	region, category := q.region(), q.category()
	if q.text("region") == "" {
		q.fault("region is missing; send its two letters, such as region=US. /api/v1/regions lists all")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	src, now := s.current(), s.o.Clock.Now()
	chart, err := src.Catalog.Chart(r.Context(), region, category)
	if errors.Is(err, catalog.ErrNotFound) {
		return nil, s.noChart(r, view.FeedName(region, category))
	}
	if err != nil {
		return nil, err
	}
	l := lasting{value: view.OneChart(chart, now, s.o.MaxAge), since: chart.FetchedAt}
	if stale := chart.FetchedAt.Add(s.o.MaxAge); !now.After(stale) {
		l.endBy(stale)
	}
	for i := range chart.Entries {
		l.endBy(src.Runner.Expires(&chart.Entries[i].Video))
	}
	return l, nil
}

func (s *Server) noChart(r *http.Request, name string) error {
	all, err := s.feeds(r)
	if err != nil {
		return err
	}
	complete := view.Complete(all)
	if len(complete) == 0 {
		return notFound("there is no chart of %s yet, nor any other", name)
	}
	return notFound("there is no chart of %s; the charts are %s", name, strings.Join(complete, ", "))
}

func (s *Server) video(r *http.Request) (any, error) {
	src := s.current()
	v, err := src.Catalog.Video(r.Context(), r.PathValue("id"))
	if errors.Is(err, catalog.ErrNotFound) {
		return nil, notFound("video %.40q was never fetched", r.PathValue("id"))
	}
	if err != nil {
		return nil, err
	}
	return lasting{view.Watch{Video: view.OneVideo(v), URL: view.VideoURL(v.ID)}, src.Runner.Expires(&v), v.FetchedAt}, nil
}

// The highest limits of a request.
const (
	maxHits = 100
	maxRuns = 100
)

// search finds fetched videos.
func (s *Server) search(r *http.Request) (any, error) {
	q := read(r)
	ask := catalog.Query{
		Text: q.text("q"), Region: q.region(), Since: q.moment("since", s.o.Clock.Now()),
		Limit: int(q.number("limit", maxHits, 20)), Cursor: q.text("cursor"),
	}
	if strings.TrimSpace(ask.Text) == "" {
		q.fault("q is missing; send the words to search for, such as q=berlin")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	src := s.current()
	found, err := src.Catalog.Search(r.Context(), ask)
	switch {
	case errors.Is(err, catalog.ErrBadCursor):
		return nil, problem.BadRequest("cursor is not one that this server returned; leave it out to start again")
	case err != nil:
		return nil, err
	case len(found.Hits) == 0 && ask.Region != "":
		if err := s.known(r, ask.Region); err != nil {
			return nil, err
		}
	}
	l := lasting{value: view.Found(found)}
	if q.moves {
		l = s.brief(l.value)
	}
	for i := range found.Hits {
		l.endBy(src.Runner.Expires(&found.Hits[i].Video))
	}
	return l, nil
}

// known returns a problem for a region that nothing is fetched for: an empty result would
// mislead.
func (s *Server) known(r *http.Request, region string) error {
	all, err := s.feeds(r)
	if err != nil {
		return err
	}
	regions := view.Regions(all, s.current().Jobs)
	if slices.Contains(regions, region) {
		return nil
	}
	return notFound("nothing is fetched for region %s; the regions are %s", region, strings.Join(regions, ", "))
}

// runs returns the history of runs, the latest first.
func (s *Server) runs(r *http.Request) (any, error) {
	q := read(r)
	ask := catalog.RunsQuery{
		Job: q.text("job"), Before: q.number("before", math.MaxInt64, 0), Limit: int(q.number("limit", maxRuns, 20)),
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	all, err := s.current().Catalog.Runs(r.Context(), ask)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && ask.Job != "" {
		if err := s.scheduled(ask.Job); err != nil {
			return nil, err
		}
	}
	return lasting{value: struct {
		Runs []catalog.RunRecord `json:"runs"`
	}{view.Runs(all)}}, nil
}

func (s *Server) scheduled(job string) error {
	all := view.JobNames(s.current().Jobs)
	if slices.Contains(all, job) {
		return nil
	}
	return notFound("there is no job %.40q and no run of it; the jobs are %s", job, strings.Join(all, ", "))
}

func notFound(format string, args ...any) *problem.Problem {
	return &problem.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(format, args...)}
}
