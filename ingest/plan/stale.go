package plan

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// Stale is a unit of work, such as the chart of a region, that falls behind its
// schedule.
type Stale struct {
	Job    string    `json:"job"`
	Work   string    `json:"work"`
	Region string    `json:"region,omitempty"`
	Since  time.Time `json:"since"`           // when the longest time began: it was due, and not done
	Behind int64     `json:"behind_seconds"`  // so long, until it was done or the plan ended
	Error  string    `json:"error,omitempty"` // why, the first time, if it was not the quota
	Missed int       `json:"missed"`          // times at which it was due and not done, in all

	from time.Time // the time that is under way; zero is none
}

type staleKey struct{ job, work string }

// fresh takes down whether a unit of work was done when it was due.
func (t *tally) fresh(j *ingest.Job, w *ingest.WorkReport, now, scheduled time.Time) {
	key := staleKey{j.Name, w.Work}
	s := t.stale[key]
	switch {
	case w.State == catalog.Done, errors.Is(w.Err, ingest.ErrMorePages):
		s.end(now)
		return
	case scheduled.IsZero():
		return
	case s == nil:
		s = &Stale{Job: j.Name, Work: w.Work, Region: w.Region}
		var refused *quota.RefusedError
		if w.Err != nil && !errors.As(w.Err, &refused) {
			s.Error = w.Err.Error()
		}
		t.stale[key] = s
	}
	s.Missed++
	if s.from.IsZero() {
		s.from = scheduled
	}
}

// end ends a time in which it was behind, if there is one.
func (s *Stale) end(now time.Time) {
	if s == nil || s.from.IsZero() {
		return
	}
	if behind := int64(now.Sub(s.from) / time.Second); behind > s.Behind {
		s.Since, s.Behind = s.from.UTC(), behind
	}
	s.from = time.Time{}
}

// staleness is all that was behind.
func (t *tally) staleness() []Stale {
	all := []Stale{}
	for _, s := range t.stale {
		s.end(t.s.until)
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Stale) int {
		return cmp.Or(cmp.Compare(b.Behind, a.Behind), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Work, b.Work))
	})
	return all
}
