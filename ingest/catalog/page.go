package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Units are the units that the fetch cost, for the history of runs. Charges are the units by
	// pool that the run has not recorded yet, also those of calls that returned no page.
	Units   int64
	Charges Charges

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

func (r *run) Save(ctx context.Context, p *Page) (Saved, error) {
	doing := "save a page of " + r.job + " " + p.Cursor.Work
	rows, err := p.rows()
	if err == nil {
		err = p.Check(r.job)
	}
	if err != nil {
		return Saved{}, r.e.home.Fault(doing+" in", err)
	}
	w := &saving{run: r, page: p, rows: rows}
	if err := r.change(ctx, doing, w.read, w.write); err != nil {
		return Saved{}, err
	}
	return w.saved, nil
}

// Row is a video of a page as the tables hold it.
type Row struct {
	Video  Video
	Tags   string
	Digest []byte // of all that the upstream says, for a home that compares by it
}

// NewRow returns the row of a video. Its texts are valid UTF-8, which databases need.
func NewRow(v Video) (r *Row, err error) {
	r = &Row{Video: v}
	r.Tags, err = v.StoredTags()
	for _, text := range []*string{
		&r.Video.ID, &r.Video.ChannelID, &r.Video.ChannelTitle, &r.Video.Title, &r.Video.Description,
		&r.Video.Category, &r.Video.Live, &r.Video.Language, &r.Video.Thumbnail, &r.Tags,
	} {
		*text = validText(*text)
	}
	return r, err
}

// Columns returns the columns that the upstream says, in the order of the statement videos_save.
func (r *Row) Columns() []any {
	v := &r.Video
	return []any{
		v.ID, v.Title, v.Description, v.ChannelTitle, r.Tags, v.ChannelID, v.PublishedAt, r.Seconds(), v.Category, v.Live,
		v.Language, v.Thumbnail, v.Brief,
	}
}

// Seconds returns the duration of the video, or nil.
func (r *Row) Seconds() *int64 {
	if r.Video.Duration <= 0 {
		return nil
	}
	n := int64(r.Video.Duration / time.Second)
	return &n
}

// rows returns the rows of the videos of a page. A page may list a video twice.
func (p *Page) rows() (all []*Row, err error) {
	seen := map[string]bool{}
	for i := range p.Videos {
		if seen[p.Videos[i].ID] {
			continue
		}
		seen[p.Videos[i].ID] = true
		r, err := NewRow(p.Videos[i])
		if err != nil {
			return nil, fmt.Errorf("video %q: %w", p.Videos[i].ID, err)
		}
		all = append(all, r)
	}
	return all, nil
}

type saving struct {
	run  *run
	page *Page
	rows []*Row // the videos of the page, each once

	cursor   locked
	known    map[string]Known // the videos that the catalog has, of those that the page names
	channels map[string]bool  // that are gone
	chart    bool             // there is one that is being fetched
	saved    Saved
	charges  Charges // of the unit of work, with those of the page
}

// read asks for what has to be known of the page's rows.
func (w *saving) read(b Batch) {
	p := w.page
	w.known, w.channels, w.chart, w.saved = map[string]Known{}, map[string]bool{}, false, Saved{}
	w.cursor.read(b, p.Cursor.Job, p.Cursor.Work)
	w.run.charged(b, p.Cursor.Work, p.Charges, &w.charges)
	others := slices.Clone(p.Gone)
	for i := range p.Statistics {
		others = append(others, p.Statistics[i].VideoID)
	}
	if len(w.rows)+len(others) > 0 {
		w.run.e.home.Known(b, w.rows, others, func(id string, k Known) { w.known[id] = k })
	}
	if len(p.Gone) > 0 {
		b.Query(func(scan Scan) error {
			var id string
			err := scan(&id)
			w.channels[id] = true
			return err
		}, "channels_lock", p.Gone)
	}
	if p.Chart {
		b.Query(func(Scan) error {
			w.chart = true
			return nil
		}, "chart_lock", p.Region, p.Category)
	}
}

func (w *saving) write(tx Tx) (err error) {
	p, s := w.page, &w.saved
	s.Cursor = w.cursor.Cursor
	if s.Repeated, err = s.Cursor.Check(&p.Cursor); err != nil {
		return err
	}
	if !s.Repeated {
		if p.Chart && s.Cursor.Begun() && !w.chart {
			return ErrNoBeginning
		}
		w.remove(tx)
		w.videos(tx)
		w.statistics(tx)
		w.saveChannels(tx)
		if p.Chart {
			w.entries(tx)
		}
		s.Cursor.Advance(p, tx.Now)
		w.cursor.Cursor = s.Cursor
		w.cursor.save(tx)
		tx.Exec("work_page", w.run.id, p.Cursor.Work, p.Region, p.Units, s.New, s.Updated, s.Unchanged, s.Gone, s.Statistics, w.charges.text())
	}
	w.run.e.home.Saved(tx, *s)
	return nil
}

func (w *saving) remove(tx Tx) {
	if len(w.page.Gone) == 0 {
		return
	}
	gone := slices.Compact(slices.Sorted(slices.Values(w.page.Gone)))
	for _, id := range gone {
		if _, there := w.known[id]; there {
			delete(w.known, id)
			w.saved.Gone++
		}
		if w.channels[id] {
			w.saved.Gone++
		}
	}
	w.run.e.home.RemoveVideos(tx, gone)
	tx.Exec("channels_remove", gone)
}

func (w *saving) videos(tx Tx) {
	var changed []*Row
	var equal, all []string
	for _, r := range w.rows {
		id := r.Video.ID
		was, there := w.known[id]
		all = append(all, id)
		switch {
		case !there:
			w.saved.New++
			changed = append(changed, r)
		case r.Video.Brief && !was.Brief: // the catalog has the full text; the row stays as old as it is
			w.saved.Unchanged++
		case was.Equal:
			w.saved.Unchanged++
			equal = append(equal, id)
		default:
			w.saved.Updated++
			changed = append(changed, r)
		}
		w.known[id] = Known{} // the catalog has it from now on
	}
	if len(changed) > 0 {
		w.run.e.home.SaveVideos(tx, changed)
	}
	if len(equal) > 0 {
		tx.Exec("videos_touch", equal, tx.Now)
	}
	if w.page.Region != "" && len(all) > 0 {
		tx.Exec("sightings_save", w.page.Region, all, tx.Now)
	}
}

// statistics saves the numbers of videos: those on the page, and those of other videos. Of
// several for one video the last count.
func (w *saving) statistics(tx Tx) {
	var all [][]any
	at := map[string]int{}
	add := func(id string, s *Statistics) {
		w.saved.Statistics++
		row := []any{id, s.Views, s.Likes, s.Comments}
		if i, twice := at[id]; twice {
			all[i] = row
			return
		}
		at[id] = len(all)
		all = append(all, row)
	}
	for _, r := range w.rows {
		if s := r.Video.Statistics; s != nil {
			add(r.Video.ID, s)
		}
	}
	for i := range w.page.Statistics {
		s := &w.page.Statistics[i]
		if _, there := w.known[s.VideoID]; there {
			add(s.VideoID, s)
		}
	}
	tx.Bulk("statistics_save", []any{tx.Now}, all)
}

// saveChannels saves the channels of the page. Of several with one id the last counts.
func (w *saving) saveChannels(tx Tx) {
	var all [][]any
	seen := map[string]bool{}
	for _, ch := range slices.Backward(w.page.Channels) {
		if !seen[ch.ID] {
			seen[ch.ID] = true
			all = append(all, []any{ch.ID, ch.PublishedAt, ch.Title, ch.Handle, ch.Country, ch.Uploads, ch.Description})
		}
	}
	tx.Bulk("channels_save", []any{tx.Now}, all)
}

// entries adds the videos of the page to the chart that is being fetched. A complete chart
// replaces the one that was shown.
func (w *saving) entries(tx Tx) {
	region, category := w.page.Region, w.page.Category
	if !w.saved.Cursor.Begun() {
		tx.Exec("chart_drop", region, category, false)
		tx.Exec("chart_add", region, category, tx.Now)
	}
	var ids []string
	for _, r := range w.rows {
		ids = append(ids, r.Video.ID)
	}
	if len(ids) > 0 {
		tx.Exec("entries_add", region, category, ids)
	}
	if w.page.Done {
		tx.Exec("chart_drop", region, category, true)
		tx.Exec("chart_show", region, category)
	}
}

// validText replaces invalid UTF-8, which no database can hold.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
