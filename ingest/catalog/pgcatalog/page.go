package pgcatalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Save implements [catalog.Run].
func (r *run) Save(ctx context.Context, p *catalog.Page) (s catalog.Saved, err error) {
	doing := "save a page of " + r.job + " " + p.Cursor.Work
	if err := p.Check(r.job); err != nil {
		return s, r.c.fault(doing+" in", err)
	}
	rows, err := rowsOf(p)
	if err != nil {
		return s, r.c.fault(doing+" in", err)
	}
	var w *saving
	err = r.change(ctx, doing, func(b *pgx.Batch) {
		w = &saving{run: r.id, page: p, rows: rows, known: map[string]known{}, channels: map[string]bool{}}
		w.read(b)
	}, func(tx *tx, b *pgx.Batch) error {
		err := w.write(tx, b)
		if err == nil && r.c.guard.Saved != nil {
			r.c.guard.Saved(b, w.saved)
		}
		return err
	})
	if err != nil {
		return catalog.Saved{}, err
	}
	return w.saved, nil
}

// saving is a page that is being saved.
type saving struct {
	run  int64
	page *catalog.Page
	rows []row // the videos of the page, each once

	cursor   locked
	known    map[string]known // the videos that the catalog has, of those that the page names
	channels map[string]bool  // that are gone
	chart    bool             // there is one that is being fetched
	saved    catalog.Saved
}

// known is what a page needs to know of a video in the catalog.
type known struct {
	brief  bool
	digest []byte
}

// row is a video as the tables hold it.
type row struct {
	video  *catalog.Video
	tags   string
	digest []byte // of all that the upstream says
}

// rowsOf returns the rows of the videos of a page. A page may list a video twice.
func rowsOf(p *catalog.Page) (all []row, err error) {
	seen := map[string]bool{}
	for i := range p.Videos {
		v := p.Videos[i]
		if seen[v.ID] {
			continue
		}
		seen[v.ID] = true
		r, err := rowOf(v)
		if err != nil {
			return nil, fmt.Errorf("video %q: %w", v.ID, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func rowOf(v catalog.Video) (r row, err error) {
	if r.tags, err = v.StoredTags(); err != nil {
		return r, err
	}
	r.tags = valid(r.tags)
	for _, text := range []*string{&v.ChannelID, &v.ChannelTitle, &v.Title, &v.Description, &v.Category, &v.Live, &v.Language, &v.Thumbnail} {
		*text = valid(*text)
	}
	r.video = &v
	said, err := json.Marshal([]any{
		v.Title, v.Description, v.ChannelTitle, r.tags, v.ChannelID, micros(v.PublishedAt), seconds(&v), v.Category, v.Live,
		v.Language, v.Thumbnail, v.Brief,
	})
	sum := sha256.Sum256(said)
	r.digest = sum[:16]
	return r, err
}

// seconds returns the duration of a video, or nil.
func seconds(v *catalog.Video) *int64 {
	if v.Duration <= 0 {
		return nil
	}
	n := int64(v.Duration / time.Second)
	return &n
}

// read queues what has to be known of the page's rows. It locks them.
func (w *saving) read(b *pgx.Batch) {
	p := w.page
	w.cursor.read(b, p.Cursor.Job, p.Cursor.Work)
	var ids []string
	for _, r := range w.rows {
		ids = append(ids, r.video.ID)
	}
	for i := range p.Statistics {
		ids = append(ids, p.Statistics[i].VideoID)
	}
	ids = append(ids, p.Gone...)
	if len(ids) > 0 {
		b.Queue(sql("videos_lock"), ids).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func(scan func(...any) error) error {
				var id string
				var k known
				err := scan(&id, &k.brief, &k.digest)
				w.known[id] = k
				return err
			})
		})
	}
	if len(p.Gone) > 0 {
		b.Queue(sql("channels_lock"), p.Gone).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func(scan func(...any) error) error {
				var id string
				err := scan(&id)
				w.channels[id] = true
				return err
			})
		})
	}
	if p.Chart {
		b.Queue(sql("chart_lock"), valid(p.Region), valid(p.Category)).Query(func(rows pgx.Rows) error {
			w.chart = rows.Next()
			rows.Close()
			return rows.Err()
		})
	}
}

// write queues the rows of the page, its cursor, and its counts.
func (w *saving) write(tx *tx, b *pgx.Batch) (err error) {
	p, s := w.page, &w.saved
	s.Cursor = w.cursor.Cursor
	if s.Repeated, err = s.Cursor.Check(&p.Cursor); err != nil || s.Repeated {
		return err
	}
	if p.Chart && s.Cursor.Begun() && !w.chart {
		return catalog.ErrNoBeginning
	}
	w.remove(b)
	if err := w.videos(b, tx.now); err != nil {
		return err
	}
	w.statistics(b, tx.now)
	saveChannels(b, p.Channels, tx.now)
	if p.Chart {
		w.entries(b, tx.now)
	}
	s.Cursor.Advance(p, tx.now)
	w.cursor.Cursor = s.Cursor
	w.cursor.save(b)
	b.Queue(sql("work_page"), w.run, p.Cursor.Work, valid(p.Region), p.Units, s.New, s.Updated, s.Unchanged, s.Gone, s.Statistics)
	return nil
}

// remove queues the deletion of what is gone.
func (w *saving) remove(b *pgx.Batch) {
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
	b.Queue(sql("videos_remove"), gone)
	b.Queue(sql("channels_remove"), gone)
}

// videos queues the videos of the page, and counts the changes.
func (w *saving) videos(b *pgx.Batch, now time.Time) error {
	var changed []row
	var equal, all []string
	for _, r := range w.rows {
		was, there := w.known[r.video.ID]
		all = append(all, r.video.ID)
		switch {
		case !there:
			w.saved.New++
			changed = append(changed, r)
		case r.video.Brief && !was.brief: // the catalog has the full text; the row stays as old as it is
			w.saved.Unchanged++
		case slices.Equal(was.digest, r.digest):
			w.saved.Unchanged++
			equal = append(equal, r.video.ID)
		default:
			w.saved.Updated++
			changed = append(changed, r)
		}
	}
	saveVideos(b, changed, now)
	if len(equal) > 0 {
		b.Queue(sql("videos_touch"), equal, micros(now))
	}
	if w.page.Region != "" && len(all) > 0 {
		b.Queue(sql("sightings_save"), valid(w.page.Region), all, micros(now))
	}
	for _, id := range all {
		w.known[id] = known{} // the catalog has it from now on
	}
	return nil
}

// saveVideos queues videos with their words.
func saveVideos(b *pgx.Batch, rows []row, now time.Time) {
	if len(rows) == 0 {
		return
	}
	var c struct {
		id, title, description, channelTitle, tags, channel, category, live, language, thumbnail []string
		published                                                                                []int64
		seconds                                                                                  []*int64
		brief                                                                                    []bool
		digest                                                                                   [][]byte
	}
	for _, r := range rows {
		v := r.video
		c.id, c.title, c.description = append(c.id, v.ID), append(c.title, v.Title), append(c.description, v.Description)
		c.channelTitle, c.tags, c.channel = append(c.channelTitle, v.ChannelTitle), append(c.tags, r.tags), append(c.channel, v.ChannelID)
		c.published, c.seconds = append(c.published, micros(v.PublishedAt)), append(c.seconds, seconds(v))
		c.category, c.live, c.language = append(c.category, v.Category), append(c.live, v.Live), append(c.language, v.Language)
		c.thumbnail, c.brief, c.digest = append(c.thumbnail, v.Thumbnail), append(c.brief, v.Brief), append(c.digest, r.digest)
	}
	b.Queue(sql("videos_save"), micros(now), c.id, c.title, c.description, c.channelTitle, c.tags, c.channel, c.published,
		c.seconds, c.category, c.live, c.language, c.thumbnail, c.brief, c.digest)
	saveWords(b, rows)
}

// statistics queues the numbers of videos: those on the page, and those of other videos. Of
// several for one video the last count.
func (w *saving) statistics(b *pgx.Batch, now time.Time) {
	var all statistics
	for _, r := range w.rows {
		if s := r.video.Statistics; s != nil {
			w.saved.Statistics++
			all.add(r.video.ID, s)
		}
	}
	for i := range w.page.Statistics {
		s := &w.page.Statistics[i]
		if _, there := w.known[s.VideoID]; there {
			w.saved.Statistics++
			all.add(s.VideoID, s)
		}
	}
	all.save(b, now)
}

// statistics are numbers of videos, by column.
type statistics struct {
	ids                    []string
	views, likes, comments []*int64
	at                     map[string]int
}

func (s *statistics) add(id string, one *catalog.Statistics) {
	i, twice := s.at[id]
	if !twice {
		if s.at == nil {
			s.at = map[string]int{}
		}
		i = len(s.ids)
		s.at[id] = i
		s.ids, s.views, s.likes, s.comments = append(s.ids, id), append(s.views, nil), append(s.likes, nil), append(s.comments, nil)
	}
	s.views[i], s.likes[i], s.comments[i] = one.Views, one.Likes, one.Comments
}

func (s *statistics) save(b *pgx.Batch, now time.Time) {
	if len(s.ids) > 0 {
		b.Queue(sql("statistics_save"), micros(now), s.ids, s.views, s.likes, s.comments)
	}
}

// saveChannels queues channels. Of several with one id the last counts.
func saveChannels(b *pgx.Batch, channels []catalog.Channel, now time.Time) {
	var published []int64
	texts := make([][]string, 6)
	seen := map[string]bool{}
	for _, ch := range slices.Backward(channels) {
		if seen[ch.ID] {
			continue
		}
		seen[ch.ID] = true
		published = append(published, micros(ch.PublishedAt))
		for i, text := range []string{ch.ID, ch.Title, ch.Handle, ch.Country, ch.Uploads, ch.Description} {
			texts[i] = append(texts[i], valid(text))
		}
	}
	if len(published) > 0 {
		b.Queue(sql("channels_save"), micros(now), texts[0], published, texts[1], texts[2], texts[3], texts[4], texts[5])
	}
}

// entries queues the entries of the chart that is being fetched. A complete chart replaces the
// one that was shown.
func (w *saving) entries(b *pgx.Batch, now time.Time) {
	region, category := valid(w.page.Region), valid(w.page.Category)
	if !w.saved.Cursor.Begun() {
		b.Queue(sql("chart_drop"), region, category, false)
		b.Queue(sql("chart_add"), region, category, micros(now))
	}
	var ids []string
	for _, r := range w.rows {
		ids = append(ids, r.video.ID)
	}
	if len(ids) > 0 {
		b.Queue(sql("entries_add"), region, category, ids)
	}
	if w.page.Done {
		b.Queue(sql("chart_drop"), region, category, true)
		b.Queue(sql("chart_show"), region, category)
	}
}
