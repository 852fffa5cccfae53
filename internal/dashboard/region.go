package dashboard

import (
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
)

// region is a chart with how fresh it is.
type region struct {
	Name, Region, Category string
	Level                  level
	State                  string
	Fetched                *moment
	Videos                 string
	Pending                int
	Last                   *moment
	LastState              string
	Next                   *moment
	NextJob                string
	Waits                  bool // it was deferred, and goes on then
	Unwanted               bool // no job fetches it
}

// regions are the charts, the stale first.
func (s *state) regions() []region {
	all := make([]region, 0, len(s.feeds))
	for i := range s.feeds {
		all = append(all, s.region(&s.feeds[i]))
	}
	slices.SortStableFunc(all, func(a, b region) int { return strings.Compare(rank(a.Level), rank(b.Level)) })
	return all
}

// rank sorts levels, the worst first.
func rank(l level) string { return map[level]string{bad: "0", warn: "1", good: "2"}[l] }

func (s *state) region(f *view.Feed) region {
	r := region{
		Name: f.Name(), Region: f.Region, Category: f.Category, Level: good, State: f.State,
		Videos: number(int64(f.Videos)), Pending: f.Pending,
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
	if at, state := s.lastOf(f); !at.IsZero() {
		m := s.at(at)
		r.Last, r.LastState = &m, string(state)
	}
	s.nextOf(f, &r)
	return r
}

// lastOf is the last work that a run did for a region, in the last 24 hours.
func (s *state) lastOf(f *view.Feed) (at time.Time, state catalog.State) {
	for i := range s.runs {
		for _, w := range s.runs[i].Work {
			if j := s.job(s.runs[i].Job); j == nil || !j.fetches(f) || w.Region != f.Region {
				continue
			}
			if t := ended(&s.runs[i], &w); t.After(at) {
				at, state = t, w.State
			}
		}
	}
	return at, state
}

// nextOf is when a job fetches a chart again.
func (s *state) nextOf(f *view.Feed, r *region) {
	var first time.Time
	for _, j := range s.jobs {
		if !j.fetches(f) {
			continue
		}
		if at, resumes := j.goes(s.now); first.IsZero() || at.Before(first) {
			first = at
			r.NextJob, r.Waits = j.Name, resumes
		}
	}
	if !first.IsZero() {
		m := s.at(first)
		r.Next = &m
	}
}

// fetches reports whether a job fetches a chart.
func (j *job) fetches(f *view.Feed) bool {
	category := f.Category
	if category == "" {
		category = "0"
	}
	return len(j.Categories) > 0 && slices.Contains(j.Regions, f.Region) && slices.Contains(j.Categories, category)
}
