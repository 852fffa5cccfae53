package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Kind is a kind of what was fetched, and grows old.
type Kind string

// The kinds.
const (
	KindVideos     Kind = "videos"
	KindStatistics Kind = "statistics"
	KindChannels   Kind = "channels"
)

// aging are the questions for ids, oldest first.
var aging = map[Kind]string{
	KindVideos: "SELECT video_id FROM videos WHERE fetched_at < ? ORDER BY fetched_at, id LIMIT ?",
	KindStatistics: `SELECT video_id FROM (
			SELECT v.video_id FROM videos v WHERE NOT EXISTS (SELECT 1 FROM statistics WHERE video = v.id) LIMIT ?2
		) UNION ALL SELECT video_id FROM (
			SELECT v.video_id FROM statistics s JOIN videos v ON v.id = s.video WHERE s.fetched_at < ?1 ORDER BY s.fetched_at, s.video LIMIT ?2
		) LIMIT ?2`,
	KindChannels: "SELECT channel_id FROM channels WHERE fetched_at < ? ORDER BY fetched_at, channel_id LIMIT ?",
}

// Aging returns the ids of what was last fetched before a time, oldest first and at
// most limit of them, to be refreshed; of statistics first of all videos that have none. What is saved anew leaves the list, and so
// does what a page says is gone; so the same question goes on.
func (c *Catalog) Aging(ctx context.Context, kind Kind, before time.Time, limit int) (ids []string, err error) {
	query, ok := aging[kind]
	if !ok {
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	err = c.each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, micros(before), limit)
	return ids, err
}

// Limits say how old data may be. Older data is deleted.
type Limits struct {
	Before           time.Time // of all data but statistics
	StatisticsBefore time.Time // of statistics
}

// Expired says how much was deleted.
type Expired struct{ Videos, Channels, Statistics, Sightings, Charts int }

// expiry are what deletes rows that are older than a time, some at once: others want
// to write too. Of a chart no entry is older than its first page.
var expiry = []struct {
	expire func(t *tx, before int64) (int64, error)
	limit  func(*Limits) time.Time
	count  func(*Expired) *int
}{
	{expireBy("expire_charts"), (*Limits).ofData, func(e *Expired) *int { return &e.Charts }},
	{expireBy("expire_sightings"), (*Limits).ofData, func(e *Expired) *int { return &e.Sightings }},
	{expireBy("expire_statistics"), (*Limits).ofStatistics, func(e *Expired) *int { return &e.Statistics }},
	{expireVideos, (*Limits).ofData, func(e *Expired) *int { return &e.Videos }},
	{expireBy("expire_channels"), (*Limits).ofData, func(e *Expired) *int { return &e.Channels }},
}

func (l *Limits) ofData() time.Time       { return l.Before }
func (l *Limits) ofStatistics() time.Time { return l.StatisticsBefore }

func expireBy(s statement) func(*tx, int64) (int64, error) {
	return func(t *tx, before int64) (int64, error) { return t.exec(s, before) }
}

func expireVideos(t *tx, before int64) (int64, error) {
	rows, err := t.rows("videos_aged", before)
	if err != nil {
		return 0, err
	}
	return int64(len(rows)), t.removeVideos(rows)
}

// Expire deletes all data that was last fetched before the limits, and with a video its
// words, statistics, sightings and places in charts. What is deleted leaves the
// file, and the -wal beside it unless somebody is reading just then; so do words that
// videos had before they changed. Cursors and the history of runs stay: they hold
// nothing of the upstream's. What is from a time that is still to come, by a clock that
// was ahead, is of now at the latest, and grows old from now on.
func (c *Catalog) Expire(ctx context.Context, l Limits) (e Expired, err error) {
	if err := c.change(ctx, (*tx).rebase); err != nil {
		return e, c.fault("delete what has expired in", err)
	}
	for _, x := range expiry {
		for n := int64(1); n > 0; {
			err := c.change(ctx, func(tx *tx) (err error) {
				n, err = x.expire(tx, micros(x.limit(&l)))
				return err
			})
			if err != nil {
				return e, c.fault("delete what has expired in", err)
			}
			*x.count(&e) += int(n)
		}
	}
	err = c.mergeIndex(ctx)
	if err == nil {
		err = c.truncateWAL(ctx)
	}
	return e, c.fault("delete what has expired in", err)
}

// rebase makes what was fetched later than now be fetched now.
func (t *tx) rebase() error {
	for _, column := range [][2]string{{"videos", "fetched_at"}, {"statistics", "fetched_at"}, {"channels", "fetched_at"}, {"charts", "fetched_at"}, {"sightings", "seen_at"}} {
		if _, err := t.ExecContext(t.ctx, fmt.Sprintf("UPDATE %s SET %s = ?1 WHERE %[2]s > ?1", column[0], column[1]), t.now); err != nil {
			return err
		}
	}
	return nil
}

// mergePages is how many pages of the index are written at once while it is merged:
// some 2 MB.
const mergePages = 500

// mergeIndex makes one segment of the index. What was taken out of it is only covered
// until then. FTS5 can delete at once, but took 15 ms for each video to do that.
func (c *Catalog) mergeIndex(ctx context.Context) error {
	for pages, did := -mergePages, 2; did >= 2; pages = mergePages { // less is nothing
		err := c.change(ctx, func(tx *tx) error {
			var before, after int
			if _, err := tx.one("changes", nil, &before); err != nil {
				return err
			}
			if _, err := tx.exec("index_merge", pages); err != nil {
				return err
			}
			_, err := tx.one("changes", nil, &after)
			did = after - before
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetRuns deletes the history of runs that ended before a time.
func (c *Catalog) ForgetRuns(ctx context.Context, before time.Time) error {
	return c.fault("write to", c.change(ctx, func(tx *tx) error {
		_, err := tx.exec("expire_runs", micros(before))
		return err
	}))
}

// truncateWAL copies the -wal into the database and empties it, if nobody reads.
func (c *Catalog) truncateWAL(ctx context.Context) error {
	var busy, log, copied int
	return c.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &copied)
}
