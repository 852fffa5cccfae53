package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/view"
)

// region is a chart, or what is searched for in a region, with how fresh it is.
type region struct {
	Name, Region, Category string
	Job                    string // that searches; empty for a chart
	Level                  level
	State                  string
	Fetched                *moment
	Videos                 string
	Pending                int
	Last                   *moment
	LastState              string
	Next                   *moment
	Waits                  bool // it was deferred, and goes on then
	Unwanted               bool // no job fetches it
}

// regions are the charts and searches, the stale first.
func (s *state) regions() []region {
	all := make([]region, 0, len(s.feeds))
	for i := range s.feeds {
		all = append(all, s.chart(&s.feeds[i]))
	}
	for _, j := range s.jobs {
		for _, f := range j.fresh {
			all = append(all, s.search(j, f))
		}
	}
	slices.SortStableFunc(all, func(a, b region) int {
		return cmp.Or(strings.Compare(rank(a.Level), rank(b.Level)), strings.Compare(a.Name, b.Name))
	})
	return all
}

// rank sorts levels, the worst first.
func rank(l level) string { return map[level]string{bad: "0", warn: "1", good: "2"}[l] }

func (s *state) chart(f *view.Feed) region {
	r := region{
		Name: f.Name(), Region: f.Region, Category: f.Category, Level: good, State: f.State,
		Videos: view.Number(int64(f.Videos)), Pending: f.Pending,
	}
	switch {
	case !f.Wanted:
		r.Unwanted = true
	case f.State == view.Stale:
		r.Level = warn
	case f.State == view.Missing:
		r.Level = bad
	}
	if f.FetchedAt != nil {
		at := s.at(*f.FetchedAt)
		r.Fetched = &at
	}
	s.around(&r, func(j *job) bool { return j.fetches(f) })
	return r
}

// search is what a job searches for in a region.
func (s *state) search(j *job, f ingest.Freshness) region {
	r := region{Name: f.Region, Region: f.Region, Job: j.Name, Level: good, State: view.Fresh}
	switch {
	case f.CompletedAt.IsZero():
		r.Level, r.State = bad, view.Missing
	case s.now.Sub(f.CompletedAt) > s.maxAge:
		r.Level, r.State = warn, view.Stale
	}
	if !f.CompletedAt.IsZero() {
		at := s.at(f.CompletedAt)
		r.Fetched = &at
	}
	s.around(&r, func(other *job) bool { return other == j })
	return r
}

// around finds the last run and the next one of jobs that fetch a region.
func (s *state) around(r *region, fetches func(*job) bool) {
	var last, next time.Time
	for i := range s.runs {
		j := s.job(s.runs[i].Job)
		if j == nil || !fetches(j) {
			continue
		}
		for _, w := range s.runs[i].Work {
			if at := ended(&s.runs[i], &w); w.Region == r.Region && at.After(last) {
				m := s.at(at)
				last, r.Last, r.LastState = at, &m, string(w.State)
			}
		}
	}
	for _, j := range s.jobs {
		if at, resumes := j.goes(s.now); fetches(j) && !at.IsZero() && (next.IsZero() || at.Before(next)) {
			m := s.at(at)
			next, r.Next, r.Waits = at, &m, resumes
		}
	}
}

// fetches reports whether a job fetches a chart.
func (j *job) fetches(f *view.Feed) bool {
	return slices.Contains(j.Charts(), ingest.Chart{Region: f.Region, Category: f.Category})
}
