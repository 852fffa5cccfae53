package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// DoneSince is why a run had nothing to do.
const DoneSince = "an earlier run did its work after it was due"

// Skips are times of a schedule that have no run.
type Skips struct {
	Times       int
	First, Last time.Time
}

// mostSkips bounds how many times are counted: two months of every minute.
const mostSkips = 100_000

// Skips returns the times between two others at which the job was due, by the schedule that it has now.
func (j *Job) Skips(after, before time.Time) (s Skips) {
	for at := j.schedule.Next(after); at.Before(before) && s.Times < mostSkips; at = j.schedule.Next(at) {
		s.Add(at)
	}
	return s
}

// Add adds a time.
func (s *Skips) Add(at time.Time) {
	if s.Times++; s.Times == 1 || at.Before(s.First) {
		s.First = at
	}
	if at.After(s.Last) {
		s.Last = at
	}
}

// Outcome is how the one record of them ends.
func (s Skips) Outcome(why string) catalog.Outcome {
	text := why
	if s.Times > 1 {
		text = fmt.Sprintf("%d times since %s: %s", s.Times, s.First.UTC().Format("2006-01-02 15:04 MST"), why)
	}
	return catalog.Outcome{State: catalog.Skipped, Error: text}
}

// Why times of a schedule were skipped.
const (
	NobodyThere = "no run began, as the schedule is now: no daemon was there, or the run before took longer"
	StillBusy   = "the run before had not ended"
	TooLate     = "it was too late, by max_lateness"
)

// skipped records the times between the last scheduled run and this one.
func (r *Run) skipped(ctx context.Context, fence catalog.Fence, at time.Time) error {
	last, err := r.LastScheduled(ctx, r.job)
	if err != nil || last.IsZero() || at.IsZero() {
		return err
	}
	s := r.job.Skips(last, at)
	if s.Times == 0 {
		return nil
	}
	record, err := r.catalog.Begin(ctx, catalog.Start{Job: r.job.Name, Fence: fence, Scheduled: s.Last})
	if err == nil {
		err = record.End(ctx, s.Outcome(NobodyThere))
	}
	return err
}
