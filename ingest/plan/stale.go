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

// Stale is a unit of work, such as the chart of a region, that falls behind its schedule.
type Stale struct {
	Job    string    `json:"job"`
	Work   string    `json:"work"`
	Region string    `json:"region,omitempty"`
	Since  time.Time `json:"since"`           // the beginning of the longest delay
	Behind int64     `json:"behind_seconds"`  // length of the longest delay
	Error  string    `json:"error,omitempty"` // the first cause, if it was not the quota
	Missed int       `json:"missed"`          // number of times that it was due and not done

	start time.Time // of the current delay, or zero
}

type staleKey struct{ job, work string }

// checkDue records whether a unit of work was done when it was due.
func (t *tally) checkDue(j *ingest.Job, w *ingest.WorkReport, now, scheduled time.Time) {
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
	if s.start.IsZero() {
		s.start = scheduled
	}
}

// end ends the current delay, if there is one.
func (s *Stale) end(now time.Time) {
	if s == nil || s.start.IsZero() {
		return
	}
	if behind := int64(now.Sub(s.start) / time.Second); behind > s.Behind {
		s.Since, s.Behind = s.start.UTC(), behind
	}
	s.start = time.Time{}
}

// delays returns the work that was behind, the worst first.
func (t *tally) delays() []Stale {
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
