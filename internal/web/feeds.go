package web

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// quota tells how the pools stand.
func (s *Server) quota(r *http.Request) (any, error) {
	all, err := s.from().Ledger.Usage(r.Context(), "", "")
	if err != nil {
		return nil, err
	}
	return struct {
		Pools []view.Pool `json:"pools"`
	}{view.Pools(all)}, nil
}

// regions tells how fresh the charts are.
func (s *Server) regions(r *http.Request) (any, error) {
	all, err := s.feeds(r)
	if err != nil {
		return nil, err
	}
	return struct {
		Regions []view.Feed `json:"regions"`
	}{all}, nil
}

func (s *Server) feeds(r *http.Request) ([]view.Feed, error) {
	src := s.from()
	feeds, err := src.Catalog.Feeds(r.Context())
	if err != nil {
		return nil, err
	}
	return view.Feeds(feeds, src.Jobs, s.clock.Now(), s.maxAge), nil
}

// trending is the last complete chart of a region and category.
func (s *Server) trending(r *http.Request) (any, error) {
	q := read(r)
	region, category := q.region(), q.category()
	if q.text("region") == "" {
		q.fault("region is missing; write its two letters, as region=US; /api/v1/regions has all")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	chart, err := s.from().Catalog.Chart(r.Context(), region, category)
	if errors.Is(err, catalog.ErrNotFound) {
		return nil, s.noChart(r, view.FeedName(region, category))
	}
	if err != nil {
		return nil, err
	}
	return kept{view.OneChart(chart, s.clock.Now(), s.maxAge), chart.FetchedAt}, nil
}

// noChart says which charts there are.
func (s *Server) noChart(r *http.Request, name string) error {
	all, err := s.feeds(r)
	if err != nil {
		return err
	}
	complete := view.Complete(all)
	if len(complete) == 0 {
		return missing("there is no chart of %s yet, nor any other", name)
	}
	return missing("there is no chart of %s; there are %s", name, strings.Join(complete, ", "))
}

// video is what is known of a video.
func (s *Server) video(r *http.Request) (any, error) {
	v, err := s.from().Catalog.Video(r.Context(), r.PathValue("id"))
	if errors.Is(err, catalog.ErrNotFound) {
		return nil, missing("no video %.40q was fetched", r.PathValue("id"))
	}
	if err != nil {
		return nil, err
	}
	return kept{view.Watch{Video: view.OneVideo(v), URL: view.VideoURL(v.ID)}, v.FetchedAt}, nil
}

// The most that is asked for at once.
const (
	maxHits = 100
	maxRuns = 100
)

// search finds videos among what was fetched.
func (s *Server) search(r *http.Request) (any, error) {
	q := read(r)
	ask := catalog.Query{
		Text: q.text("q"), Region: q.region(), Since: q.moment("since", s.clock.Now()),
		Limit: int(q.number("limit", maxHits, 20)), Cursor: q.text("cursor"),
	}
	if strings.TrimSpace(ask.Text) == "" {
		q.fault("q is missing; write what to look for, as q=berlin")
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	found, err := s.from().Catalog.Search(r.Context(), ask)
	switch {
	case errors.Is(err, catalog.ErrBadCursor):
		return nil, bad("cursor is none that an answer ended with; leave it out to begin anew")
	case err != nil:
		return nil, err
	case len(found.Hits) == 0 && ask.Region != "":
		if err := s.known(r, ask.Region); err != nil {
			return nil, err
		}
	}
	return view.Found(found), nil
}

// known refuses a region for which nothing is fetched: that nothing is found there
// says nothing.
func (s *Server) known(r *http.Request, region string) error {
	all, err := s.feeds(r)
	if err != nil {
		return err
	}
	regions := view.Regions(all, s.from().Jobs)
	if slices.Contains(regions, region) {
		return nil
	}
	return missing("nothing is fetched for region %s; there are %s", region, strings.Join(regions, ", "))
}

// runs is the history of runs, the latest first.
func (s *Server) runs(r *http.Request) (any, error) {
	q := read(r)
	ask := catalog.RunsQuery{
		Job: q.text("job"), Before: q.number("before", math.MaxInt64, 0), Limit: int(q.number("limit", maxRuns, 20)),
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	all, err := s.from().Catalog.Runs(r.Context(), ask)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && ask.Job != "" {
		if err := s.scheduled(ask.Job); err != nil {
			return nil, err
		}
	}
	return struct {
		Runs []catalog.RunRecord `json:"runs"`
	}{view.Runs(all)}, nil
}

// scheduled refuses a job that there is not.
func (s *Server) scheduled(job string) error {
	all := view.JobNames(s.from().Jobs)
	if slices.Contains(all, job) {
		return nil
	}
	return missing("there is no job %.40q and no run of it; there are %s", job, strings.Join(all, ", "))
}

func missing(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(format, args...)}
}
