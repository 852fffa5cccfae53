package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Work is one unit of work of a job: a region's chart, a query in a region, a
// channel. It has a cursor of its own, and one that fails stops no other.
type Work struct {
	Name   string          // as the catalog knows it
	Region string          // empty if it is for none
	place  int             // of its region in the run, from 0, for the stagger
	calls  context.Context // of all its calls; it ends with the abort, not with the run
	cursor catalog.Cursor
	fetch  func(ctx context.Context, at catalog.Cursor) (*catalog.Page, error)
	// resumable work keeps its pass when it has fetched its pages of a run, and
	// goes on in the next; a chart is complete then.
	resumable bool
}

// works lists the units of work of a job, in the order of its configuration.
func (r *Runner) works(j *Job) []*Work { return j.Kind.row().works(r, j) }

// stalest orders work so that what had its turn the longest ago comes first, and
// what never had one before all. Of equals the one that is under way goes on.
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
		w.cursor.SavedAt, w.cursor.CompletedAt = r.past(w.cursor.SavedAt), r.past(w.cursor.CompletedAt)
	}
	slices.SortStableFunc(all, func(a, b *Work) int {
		if c := a.turn().Compare(b.turn()); c != 0 {
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

// past returns a time of the past as it is, and never for one that is to come: the
// clock was ahead then, and by more than those of two machines differ.
func (r *Runner) past(t time.Time) time.Time {
	if t.After(r.clock.Now().Add(time.Hour)) {
		return time.Time{}
	}
	return t
}

// turn is when work last had its turn. Half a chart is none; but of work that takes
// many runs every page counts, or it would come first until it is complete.
func (w *Work) turn() time.Time {
	if w.resumable {
		return w.cursor.SavedAt
	}
	return w.cursor.CompletedAt
}

// queue gives each region its place, in the order of the work; what belongs to none has
// one of its own.
func queue(all []*Work) {
	places := map[string]int{}
	for _, w := range all {
		region := cmp.Or(w.Region, w.Name)
		if _, known := places[region]; !known {
			places[region] = len(places)
		}
		w.place = places[region]
	}
}

// only keeps the work of some regions.
func only(all []*Work, regions []string) ([]*Work, error) {
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
			return nil, fmt.Errorf("region %s is not one of the job's", region)
		}
	}
	return kept, nil
}

// Freshness says how stale a region of a job is, or work that belongs to none.
type Freshness struct {
	Region      string
	CompletedAt time.Time // of its stalest work, the last time; zero is never
}

// Freshness returns how stale each region of a job is, the stalest first.
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
