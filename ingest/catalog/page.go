package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Page is what one call fetched for a unit of work. All of it and the cursor are
// saved in one transaction.
type Page struct {
	// At is the cursor by which it was fetched, as [Catalog.Cursor] or the last
	// [Run.Save] returned it.
	At Cursor
	// Next asks for the page after this one; empty if Done.
	Next string
	// Done says that this page ends the pass.
	Done bool
	// Since is where the pass begins, if it begins somewhere. It counts with the
	// first page of a pass, and stands in the cursor until the last.
	Since time.Time
	// High is the latest time on this page by which the work is incremental, such
	// as the latest publishedAt; zero if there is none. When the pass is complete
	// its highest becomes the cursor's Mark, and never before. One that is still to come
	// counts as some minutes ago.
	High time.Time
	// Units are what the call cost, for the history of runs.
	Units int64

	// Region is for which region it was fetched; empty for none.
	Region string
	// Chart says that the videos are the next entries of the region's chart, of
	// the category. It is shown when the pass is complete, in place of the one
	// before.
	Chart    bool
	Category string

	Videos   []Video
	Channels []Channel
	// Statistics are those of videos that are not on the page. What is of a video
	// that the catalog does not hold is dropped.
	Statistics []Statistics
	// Gone are ids of videos and channels that were asked for and not returned: they
	// are deleted.
	Gone []string
}

// Saved says what became of a page.
type Saved struct {
	// Cursor is where the work goes on.
	Cursor Cursor
	// Repeated says that the page had been saved already, and nothing was done.
	Repeated bool

	New        int // videos that the catalog did not hold
	Updated    int // videos that have changed
	Unchanged  int // videos that have not
	Statistics int // videos whose statistics were refreshed
	Gone       int // videos and channels that were deleted
}

// check refuses what would lose its place.
func (p *Page) check(job string) error {
	switch {
	case p.At.Job != job:
		return fmt.Errorf("its cursor is of the job %q", p.At.Job)
	case p.At.Work == "":
		return errors.New("its cursor names no unit of work")
	case p.Done && p.Next != "":
		return errors.New("it is the last one, and names a next one")
	case !p.Done && p.Next == "":
		return errors.New("it is not the last one, and names no next one")
	case p.Chart && p.Region == "":
		return errors.New("it is of a chart, and names no region")
	}
	return nil
}

// Save saves a page. A page that is saved already changes nothing, whoever saved
// it; one that is neither that nor the next one is refused with [ErrOutOfStep], and
// all with [ErrFenced] once another process has taken over.
func (r *Run) Save(ctx context.Context, p *Page) (Saved, error) {
	return r.in.save(ctx, r, p)
}

func (c *Catalog) save(ctx context.Context, r *Run, p *Page) (s Saved, err error) {
	if err = p.check(r.job); err == nil {
		err = c.change(ctx, func(tx *tx) error {
			s = Saved{}
			return tx.savePage(r, p, &s)
		})
	}
	if err != nil {
		return Saved{}, c.fault(fmt.Sprintf("save a page of %s %s in", r.job, p.At.Work), err)
	}
	return s, nil
}

func (t *tx) savePage(r *Run, p *Page, s *Saved) error {
	if err := t.show(r.fence); err != nil {
		return err
	}
	var err error
	if s.Cursor, err = t.cursor(p.At.Job, p.At.Work); err != nil {
		return err
	}
	if s.Repeated, err = s.Cursor.step(&p.At); err != nil || s.Repeated {
		return err
	}
	rows, err := t.saveRows(p, s)
	if err != nil {
		return err
	}
	if p.Chart {
		if err := t.saveChart(p, &s.Cursor, rows); err != nil {
			return err
		}
	}
	s.Cursor.advance(p, moment(t.now))
	if err := t.saveCursor(&s.Cursor); err != nil {
		return err
	}
	_, err = t.exec("work_page", r.ID, p.At.Work, p.Region, p.Units, s.New, s.Updated, s.Unchanged, s.Gone, s.Statistics)
	return err
}

// saveRows saves what a page holds, and returns the rows of its videos.
func (t *tx) saveRows(p *Page, s *Saved) ([]int64, error) {
	gone, err := t.held(p.Gone)
	if err != nil {
		return nil, err
	}
	s.Gone = len(gone)
	if err := t.removeVideos(gone); err != nil {
		return nil, err
	}
	n, err := t.removeChannels(p.Gone)
	if err != nil {
		return nil, err
	}
	s.Gone += int(n)
	rows, err := t.saveVideos(p.Videos, s)
	if err != nil {
		return nil, err
	}
	if p.Region != "" {
		for _, row := range rows {
			if _, err := t.exec("sighting_save", p.Region, row, t.now); err != nil {
				return nil, err
			}
		}
	}
	for i := range p.Channels {
		if err := t.saveChannel(&p.Channels[i]); err != nil {
			return nil, fmt.Errorf("channel %q: %w", p.Channels[i].ID, err)
		}
	}
	for i := range p.Statistics {
		row, err := t.held([]string{p.Statistics[i].VideoID})
		if err != nil {
			return nil, err
		}
		if len(row) == 0 {
			continue
		}
		if err := t.saveStatistics(row[0], &p.Statistics[i]); err != nil {
			return nil, err
		}
		s.Statistics++
	}
	return rows, nil
}

// held returns the rows of those of the videos that the catalog holds.
func (t *tx) held(ids []string) (rows []int64, err error) {
	for _, id := range ids {
		var row int64
		found, err := t.one("video_row", []any{id}, &row)
		if err != nil {
			return nil, err
		}
		if found {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// removeChannels deletes channels by id, and returns how many there were.
func (t *tx) removeChannels(ids []string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	return t.exec("channel_remove", string(list))
}
