package catalog

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Page is the result of one fetch for a unit of work. [Run.Save] saves all of it, and
// the cursor, in one transaction.
type Page struct {
	// Cursor is the cursor that the page was fetched with, as [Catalog.Cursor] or the
	// last [Run.Save] returned it.
	Cursor Cursor
	// Next is the token of the next page; empty if Done.
	Next string
	// Done says that this page ends the pass.
	Done bool
	// Since is the time at which an incremental pass begins; zero if it has none. The
	// cursor takes it from the first page of a pass and keeps it until the last.
	Since time.Time
	// High is the latest time on this page, such as the latest publishedAt, for work
	// that is incremental; zero otherwise. A complete pass makes its highest one
	// the cursor's Mark. A time in the future counts as a few minutes ago.
	High time.Time
	// Units are the units that the fetch cost, for the history of runs.
	Units int64

	// Region is the region that the page was fetched for; empty for none.
	Region string
	// Chart says that the videos are the next entries of the chart of the region and
	// category. A complete pass replaces the chart that was shown before.
	Chart    bool
	Category string

	Videos   []Video
	Channels []Channel
	// Statistics belong to videos that are not on the page. Statistics of a video that
	// the catalog does not hold are dropped.
	Statistics []Statistics
	// Gone are ids of videos and channels that were asked for and not returned. They are
	// deleted.
	Gone []string
}

// Saved is the result of saving a page.
type Saved struct {
	// Cursor is where the unit of work continues.
	Cursor Cursor
	// Repeated says that the page had been saved before. Nothing was written.
	Repeated bool

	New        int // videos that are new to the catalog
	Updated    int // videos that changed
	Unchanged  int // videos that did not change
	Statistics int // videos whose statistics were refreshed
	Gone       int // videos and channels that were deleted
}

// Check returns an error if the page does not fit a run of the job, or does not say how
// its work continues. Every catalog calls it before it saves a page.
func (p *Page) Check(job string) error {
	switch {
	case p.Cursor.Job != job:
		return fmt.Errorf("its cursor belongs to the job %q", p.Cursor.Job)
	case p.Cursor.Work == "":
		return errors.New("its cursor names no unit of work")
	case p.Done && p.Next != "":
		return errors.New("it is the last page, and names a next one")
	case !p.Done && p.Next == "":
		return errors.New("it is not the last page, and names no next one")
	case p.Chart && p.Region == "":
		return errors.New("it belongs to a chart, and names no region")
	}
	return nil
}

// Save implements [Run].
func (r *run) Save(ctx context.Context, p *Page) (s Saved, err error) {
	doing := "save a page of " + r.job + " " + p.Cursor.Work
	if err := p.Check(r.job); err != nil {
		return s, r.c.fault(doing+" in", err)
	}
	err = r.change(ctx, doing, func(tx *tx) (err error) {
		s, err = tx.savePage(r, p)
		return err
	})
	if err != nil {
		return Saved{}, err
	}
	return s, nil
}

func (t *tx) savePage(r *run, p *Page) (s Saved, err error) {
	if s.Cursor, err = t.cursor(p.Cursor.Job, p.Cursor.Work); err != nil {
		return s, err
	}
	if s.Repeated, err = s.Cursor.Check(&p.Cursor); err != nil || s.Repeated {
		return s, err
	}
	rows, err := t.saveRows(p, &s)
	if err != nil {
		return s, err
	}
	if p.Chart {
		if err := t.saveChart(p, &s.Cursor, rows); err != nil {
			return s, err
		}
	}
	s.Cursor.Advance(p, t.now)
	if err := t.saveCursor(&s.Cursor); err != nil {
		return s, err
	}
	_, err = t.Exec("work_page", r.id, p.Cursor.Work, p.Region, p.Units, s.New, s.Updated, s.Unchanged, s.Gone, s.Statistics)
	return s, err
}

// saveRows saves the rows of a page and returns the rows of its videos.
func (t *tx) saveRows(p *Page, s *Saved) ([]int64, error) {
	if err := t.remove(p.Gone, s); err != nil {
		return nil, err
	}
	rows, err := t.saveVideos(p.Videos, s)
	if err != nil {
		return nil, err
	}
	if p.Region != "" {
		for _, row := range rows {
			if _, err := t.Exec("sighting_save", p.Region, row, t.now); err != nil {
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
		row, err := t.One("video_row", p.Statistics[i].VideoID)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		if err := t.saveStatistics(row.Int(0), &p.Statistics[i]); err != nil {
			return nil, err
		}
		s.Statistics++
	}
	return rows, nil
}

// remove deletes videos and channels by id.
func (t *tx) remove(ids []string, s *Saved) error {
	if len(ids) == 0 {
		return nil
	}
	var videos []int64
	for _, id := range ids {
		row, err := t.One("video_row", id)
		if err != nil {
			return err
		}
		if row != nil {
			videos = append(videos, row.Int(0))
		}
	}
	if err := t.removeVideos(videos); err != nil {
		return err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	channels, err := t.Exec("channel_remove", string(list))
	s.Gone = len(videos) + int(channels)
	return err
}

// change is what saving does to one video.
type change struct {
	columns []driver.Value
	row     int64 // 0 if the video is new
	keep    bool  // the catalog has the full text and the page does not
	equal   bool
}

// saveVideos saves the videos of a page, counts the changes, and returns their rows. A
// video never changes its row: the index and the charts refer to it.
func (t *tx) saveVideos(videos []Video, s *Saved) ([]int64, error) {
	changes := make([]change, len(videos))
	first := map[string]int{} // a page may list a video twice
	var stale, indexed []int64
	for i := range videos {
		if _, ok := first[videos[i].ID]; ok {
			continue
		}
		first[videos[i].ID] = i
		if err := t.compareVideo(&videos[i], &changes[i]); err != nil {
			return nil, fmt.Errorf("video %q: %w", videos[i].ID, err)
		}
		if ch := &changes[i]; ch.row != 0 && !ch.keep && !ch.equal {
			stale = append(stale, ch.row)
		}
	}
	if err := t.index("index_remove", stale); err != nil { // while the rows have the old text
		return nil, err
	}
	rows := make([]int64, len(videos))
	for i := range videos {
		v := &videos[i]
		if n := first[v.ID]; n < i {
			rows[i] = rows[n]
			continue
		}
		var changed bool
		var err error
		if rows[i], changed, err = t.saveVideo(v, &changes[i], s); err != nil {
			return nil, fmt.Errorf("video %q: %w", v.ID, err)
		}
		if changed {
			indexed = append(indexed, rows[i])
		}
	}
	return rows, t.index("index_add", indexed)
}

// compareVideo compares a video with its row.
func (t *tx) compareVideo(v *Video, ch *change) error {
	tags, err := v.StoredTags()
	if err != nil {
		return err
	}
	var seconds driver.Value
	if v.Duration > 0 {
		seconds = int64(v.Duration.Seconds())
	}
	ch.columns = []driver.Value{
		v.ID, validText(v.Title), validText(v.Description), validText(v.ChannelTitle), validText(tags), validText(v.ChannelID),
		v.PublishedAt, seconds, validText(v.Category), validText(v.Live), validText(v.Language), validText(v.Thumbnail), v.Brief,
	}
	row, err := t.One("video_find", ch.columns...)
	if row != nil {
		ch.row, ch.keep, ch.equal = row.Int(0), v.Brief && !row.Bool(1), row.Bool(2)
	}
	return err
}

// saveVideo makes a change, and reports whether the index needs new words.
func (t *tx) saveVideo(v *Video, ch *change, s *Saved) (row int64, changed bool, err error) {
	row = ch.row
	switch {
	case row == 0:
		s.New++
		changed = true
		row, err = t.Insert("video_add", append(ch.columns, t.now)...)
	case ch.keep: // and the row stays as old as it is
		s.Unchanged++
	case ch.equal:
		s.Unchanged++
		_, err = t.Exec("video_touch", row, t.now)
	default:
		s.Updated++
		changed = true
		_, err = t.Exec("video_save", append(ch.columns, t.now)...)
	}
	if err == nil && v.Statistics != nil {
		s.Statistics++
		err = t.saveStatistics(row, v.Statistics)
	}
	return row, changed, err
}

// removeVideos deletes videos by row, with everything that refers to them.
func (t *tx) removeVideos(rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	if err := t.index("index_remove", rows); err != nil {
		return err
	}
	_, err := t.Exec("video_remove", jsonList(rows))
	return err
}

// index adds the words of rows to the index, or removes them.
func (t *tx) index(statement string, rows []int64) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := t.Exec(statement, jsonList(rows))
	return err
}

// jsonList returns rows as a JSON array. SQLite takes a list in this form.
func jsonList(rows []int64) string {
	return strings.ReplaceAll(fmt.Sprint(rows), " ", ",")
}

func (t *tx) saveStatistics(row int64, s *Statistics) error {
	_, err := t.Exec("statistics_save", row, t.now, s.Views, s.Likes, s.Comments)
	return err
}

func (t *tx) saveChannel(ch *Channel) error {
	_, err := t.Exec("channel_save", ch.ID, t.now, ch.PublishedAt, validText(ch.Title), validText(ch.Handle),
		validText(ch.Country), validText(ch.Uploads), validText(ch.Description))
	return err
}

// validText replaces invalid UTF-8, which SQLite cannot hold.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
