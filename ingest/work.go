package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Work is one unit of work of a job: the chart of a region, a query in a region, a channel.
// It has its own cursor. If it fails, the others continue.
type Work struct {
	Name   string    // in the catalog
	Region string    // empty if it has none
	Place  int       // of its region in the run, from 0, for stagger
	Start  time.Time // before which its run does not start it; zero: at once
	Tally            // of the present run

	cursor catalog.Cursor
	// fetch fetches the page at a cursor. It is nil for the program of a job.
	fetch func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error)
	// resumable work continues its pass in the next run when it has fetched its pages of
	// this one. Other work is complete then.
	resumable bool

	// These belong to its steps.
	calls     context.Context // of all its calls; it ends with Abort, not with the run
	budget    *meter.Budget   // its part of the run's
	spent     catalog.Charges // of the budget, as far as it is counted
	began     time.Time       // when its run began
	until     time.Time       // when its step ends
	restarted bool            // because it was out of step
}

// works lists the units of work of a job, in the order of its configuration.
func (r *Runner) works(j *Job) []*Work { return j.Kind.row().works(r, j) }

// Plan lists the work that a run does on an occasion, stalest first.
func (r *Runner) Plan(ctx context.Context, j *Job, now time.Time, why Occasion) ([]*Work, error) {
	works, err := inRegions(r.works(j), why.Regions)
	if err != nil {
		return nil, err
	}
	if err := r.stalest(ctx, j, works); err != nil {
		return nil, err
	}
	open := r.Opened(ctx, j)
	works = slices.DeleteFunc(works, func(w *Work) bool {
		if why.Deferred {
			if at := w.ResumeAt(now, open); at.IsZero() || at.After(now) {
				return true
			}
		}
		return w.completedSince(why.Scheduled, now, j.schedule.Next(why.Scheduled)) || slices.Contains(why.Without, w.Name)
	})
	queue(works)
	return works, nil
}

// completedSince reports whether the work was completed since it was due. If the clock was set back since, that was the work
// of this time only if it was completed before the next one.
func (w *Work) completedSince(due, now, next time.Time) bool {
	at := w.cursor.CompletedAt
	return !due.IsZero() && !at.Before(due) && (at.Before(next) || !at.After(now))
}

// Find returns the work of a job that a cursor belongs to, or nil if the job has no such work.
func (r *Runner) Find(j *Job, cur catalog.Cursor) *Work {
	for _, w := range r.works(j) {
		if w.Name == cur.Work {
			w.cursor = cur
			return w
		}
	}
	return nil
}

// stalest reads the cursors and sorts work by its last turn, oldest first. Work without a
// turn comes first. Among equals, work with an unfinished pass comes first.
func (r *Runner) stalest(ctx context.Context, j *Job, all []*Work) error {
	cursors, err := r.catalog.Cursors(ctx, j.Name)
	if err != nil {
		return err
	}
	at := make(map[string]catalog.Cursor, len(cursors))
	for _, c := range cursors {
		at[c.Work] = c
	}
	for _, w := range all {
		w.cursor = at[w.Name]
		w.cursor.Job, w.cursor.Work = j.Name, w.Name
		w.cursor.SavedAt, w.cursor.CompletedAt = r.notFuture(w.cursor.SavedAt), r.notFuture(w.cursor.CompletedAt)
	}
	slices.SortStableFunc(all, func(a, b *Work) int {
		if c := a.Turn().Compare(b.Turn()); c != 0 {
			return c
		}
		if a.cursor.Begun() != b.cursor.Begun() {
			if a.cursor.Begun() {
				return -1
			}
			return 1
		}
		return 0
	})
	return nil
}

// notFuture returns t, or zero if t is more than an hour in the future. The clock that wrote
// such a time was wrong.
func (r *Runner) notFuture(t time.Time) time.Time {
	if t.After(r.clock.Now().Add(time.Hour)) {
		return time.Time{}
	}
	return t
}

// Turn returns when work last had its turn. For work that continues over several runs,
// every page is a turn, or it would come first until it is complete. For other work, only a
// complete pass is.
func (w *Work) Turn() time.Time {
	if w.resumable {
		return w.cursor.SavedAt
	}
	return w.cursor.CompletedAt
}

// queue numbers the regions in the order of the work. Work without a region has a place of
// its own.
func queue(all []*Work) {
	places := map[string]int{}
	for _, w := range all {
		region := cmp.Or(w.Region, w.Name)
		if _, known := places[region]; !known {
			places[region] = len(places)
		}
		w.Place = places[region]
	}
}

// inRegions returns the work of some regions. Without regions it returns all work.
func inRegions(all []*Work, regions []string) ([]*Work, error) {
	if len(regions) == 0 {
		return all, nil
	}
	kept := all[:0:0]
	for _, region := range regions {
		found := false
		for _, w := range all {
			if w.Region == region {
				kept, found = append(kept, w), true
			}
		}
		if !found {
			return nil, fmt.Errorf("the job has no region %s", region)
		}
	}
	return kept, nil
}

// Freshness says how stale a region of a job is, or work without a region.
type Freshness struct {
	Region      string
	CompletedAt time.Time // when its stalest work was last complete; zero: never
}

// Freshness returns how stale each region of a job is, stalest first.
func (r *Runner) Freshness(ctx context.Context, j *Job) ([]Freshness, error) {
	works := r.works(j)
	if err := r.stalest(ctx, j, works); err != nil {
		return nil, fmt.Errorf("read the cursors of %s: %w", j.Name, err)
	}
	var all []Freshness
	at := map[string]int{}
	for _, w := range works {
		region := cmp.Or(w.Region, w.Name)
		i, known := at[region]
		switch completed := w.cursor.CompletedAt; {
		case !known:
			at[region] = len(all)
			all = append(all, Freshness{region, completed})
		case completed.Before(all[i].CompletedAt):
			all[i].CompletedAt = completed
		}
	}
	slices.SortStableFunc(all, func(a, b Freshness) int { return a.CompletedAt.Compare(b.CompletedAt) })
	return all, nil
}
