package web

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
)

// quota returns the state of the pools, and the verdict of the first page.
func (s *Server) quota(r *http.Request) (any, error) {
	is := s.standing(r.Context())
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	known := slices.DeleteFunc(slices.Clone(is.Pools), func(u quota.Usage) bool { return !verdict.Known(&u) })
	told, err := verdict.Stand(r.Context(), s.current().Ledger, known, is.Outage)
	if err != nil {
		return nil, err
	}
	told.Verdict = is.Verdict().Said()
	return told, nil
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
		if jobs := view.JobNames(s.current().Jobs); !slices.Contains(jobs, ask.Job) {
			return nil, notFound("there is no job %.40q and no run of it; the jobs are %s", ask.Job, strings.Join(jobs, ", "))
		}
	}
	return lasting{value: struct {
		Runs []catalog.RunRecord `json:"runs"`
	}{view.Runs(all)}}, nil
}

func notFound(format string, args ...any) *problem.Problem {
	return &problem.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(format, args...)}
}

// checkQuery returns a problem for a malformed query, an unknown parameter, or one that is
// there twice: a misspelt filter must not be ignored.
func checkQuery(r *http.Request, names []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.BadRequest("the query cannot be read; escape other characters than letters and digits, such as %20 for a space")
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(names, name) && len(names) == 0:
			faults = append(faults, fmt.Sprintf("%.40q is not a parameter; there are none", name))
		case !slices.Contains(names, name):
			faults = append(faults, fmt.Sprintf("%.40q is not a parameter; the parameters are %s", name, strings.Join(names, ", ")))
		case len(values[name]) > 1:
			faults = append(faults, name+" is there more than once")
		}
		if len(faults) == maxFaults {
			break
		}
	}
	return faulty(faults)
}

// maxFaults is how many faults of a request an answer lists.
const maxFaults = 5

func faulty(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return problem.BadRequest(strings.Join(faults, "; "))
}

// query parses the parameters of a request. An empty parameter counts as missing. Faults
// are collected, so that a client learns of all at once.
type query struct {
	values url.Values
	faults []string
	moves  bool // a parameter means another time each moment, such as 7d
}

func read(r *http.Request) *query { return &query{values: r.URL.Query()} }

// err returns the faults of the parameters that were read so far.
func (q *query) err() error { return faulty(q.faults) }

func (q *query) fault(format string, args ...any) {
	q.faults = append(q.faults, fmt.Sprintf(format, args...))
}

func (q *query) text(name string) string { return q.values.Get(name) }

// number returns a number from 1 to limit, or missing if the parameter is missing.
func (q *query) number(name string, limit, missing int64) int64 {
	text := q.text(name)
	if text == "" {
		return missing
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > limit {
		q.fault("%s is %.40q; send a number from 1 to %d", name, text, limit)
	}
	return n
}

var categoryPattern = pattern.Of(`^[0-9]{1,6}$`)

// region returns a region in upper case, as the catalog has it.
func (q *query) region() string {
	text := strings.ToUpper(q.text("region"))
	if text != "" && !ingest.IsRegion(text) {
		q.fault("region is %.40q; send its two letters, such as US or DE", text)
	}
	return text
}

// category returns the id of a category, or "" for all (0).
func (q *query) category() string {
	text := q.text("category")
	if text != "" && !categoryPattern().MatchString(text) {
		q.fault("category is %.40q; send the id of a video category, such as 10, or 0 for all", text)
	}
	return ingest.Category(text)
}

// moment parses a day, a time, or how long ago a time was.
func (q *query) moment(name string, now time.Time) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := view.ParseMoment(text, now)
	if err != nil {
		q.fault("%s: %s", name, err)
	}
	_, err = view.ParseSpan(text)
	q.moves = err == nil
	return t
}
