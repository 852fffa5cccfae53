package catalog

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Kind is a kind of data that has to be refreshed or deleted.
type Kind string

// The kinds.
const (
	KindVideos     Kind = "videos"
	KindStatistics Kind = "statistics"
	KindChannels   Kind = "channels"
)

// ages are the queries for the age of each kind.
var ages = map[Kind]string{
	KindVideos: "SELECT video_id, fetched_at, brief FROM videos WHERE fetched_at < ?1 ORDER BY fetched_at, id LIMIT ?2",
	KindStatistics: `SELECT * FROM (
			SELECT v.video_id, 0, 0 FROM videos v WHERE NOT EXISTS (SELECT 1 FROM statistics WHERE video = v.id) LIMIT ?2
		) UNION ALL SELECT * FROM (
			SELECT v.video_id, s.fetched_at, 0 FROM statistics s JOIN videos v ON v.id = s.video WHERE s.fetched_at < ?1 ORDER BY s.fetched_at, s.video LIMIT ?2
		) LIMIT ?2`,
	KindChannels: "SELECT channel_id, fetched_at, 0 FROM channels WHERE fetched_at < ?1 ORDER BY fetched_at, channel_id LIMIT ?2",
}

// Age says when a video, its statistics or a channel was last fetched.
type Age struct {
	ID        string
	FetchedAt time.Time // zero if a video has no statistics
	Brief     bool      // of a video: see [Video].Brief
}

// Ages returns data of a kind that was last fetched before a time, the oldest first. A
// limit below 0 is no limit. Videos without statistics count as the oldest statistics.
func (c *Catalog) Ages(ctx context.Context, kind Kind, before time.Time, limit int) (all []Age, err error) {
	query, ok := ages[kind]
	if !ok {
		return nil, fmt.Errorf("there is no kind %q", kind)
	}
	err = c.each(ctx, func(row sqlitefile.Row) error {
		all = append(all, Age{row.Text(0), row.Time(1), row.Bool(2)})
		return nil
	}, query, before, limit)
	return all, err
}

// Limits are the limits of the age of data. Older data is deleted.
type Limits struct {
	Before           time.Time // for all data but statistics
	StatisticsBefore time.Time // for statistics
}

// Expired counts the data that was deleted.
type Expired struct{ Videos, Channels, Statistics, Sightings, Charts int }

// Expire deletes all data that was last fetched before the limits. With a video it
// deletes the video's words, statistics, sightings and places in charts. Deleted data
// leaves the file, and also the -wal beside it unless someone reads at that moment.
// Cursors and the history of runs stay, because they hold no data of the upstream. Data
// with a time in the future, from a clock that was ahead, counts as fetched now.
func (c *Catalog) Expire(ctx context.Context, l Limits) (e Expired, err error) {
	err = c.change(ctx, (*tx).rebase)
	for _, step := range []struct {
		expire func(*tx, time.Time) (int64, error)
		before time.Time
		count  *int
	}{ // an entry of a chart is as old as the chart
		{expireWith("expire_charts"), l.Before, &e.Charts},
		{expireWith("expire_sightings"), l.Before, &e.Sightings},
		{expireWith("expire_statistics"), l.StatisticsBefore, &e.Statistics},
		{expireVideos, l.Before, &e.Videos},
		{expireWith("expire_channels"), l.Before, &e.Channels},
	} {
		for n := int64(1); n > 0 && err == nil; { // a few at once, as others write too
			err = c.change(ctx, func(tx *tx) (err error) {
				n, err = step.expire(tx, step.before)
				return err
			})
			if err == nil {
				*step.count += int(n)
			}
		}
	}
	if err == nil {
		err = c.mergeIndex(ctx)
	}
	if err == nil {
		err = c.truncateWAL(ctx)
	}
	if err == nil {
		err = c.expireKept(ctx, l)
	}
	return e, c.fault("delete expired data in", err)
}

// expireKept deletes the copies that were made before the schema changed, once they have data
// that is deleted here. One that is no catalog, or cannot be read, goes when its file is as old.
func (c *Catalog) expireKept(ctx context.Context, l Limits) error {
	all, err := sqlitefile.Kept(c.file.Path)
	for _, path := range all {
		var due bool
		unread := sqlitefile.Untouched(ctx, path, func(s *sqlitefile.Session) error {
			row, err := s.One(`SELECT EXISTS (SELECT 1 FROM charts WHERE fetched_at < ?1) OR EXISTS (SELECT 1 FROM sightings WHERE seen_at < ?1)
				OR EXISTS (SELECT 1 FROM videos WHERE fetched_at < ?1) OR EXISTS (SELECT 1 FROM channels WHERE fetched_at < ?1)
				OR EXISTS (SELECT 1 FROM statistics WHERE fetched_at < ?2)`, l.Before, l.StatisticsBefore)
			if err == nil {
				due = row.Bool(0)
			}
			return err
		})
		if unread != nil && ctx.Err() == nil {
			info, gone := os.Stat(path)
			due = gone == nil && (info.ModTime().Before(l.Before) || sqlitefile.Damaged(unread))
		}
		if due {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

func expireWith(statement string) func(*tx, time.Time) (int64, error) {
	return func(t *tx, before time.Time) (int64, error) { return t.Exec(statement, before) }
}

func expireVideos(t *tx, before time.Time) (int64, error) {
	var rows []int64
	err := t.Rows("videos_aged", []driver.Value{before}, func(row sqlitefile.Row) error {
		rows = append(rows, row.Int(0))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return int64(len(rows)), t.removeVideos(rows)
}

// rebase sets times in the future to now.
func (t *tx) rebase() error {
	for _, column := range [][2]string{{"videos", "fetched_at"}, {"statistics", "fetched_at"}, {"channels", "fetched_at"}, {"charts", "fetched_at"}, {"sightings", "seen_at"}} {
		if _, err := t.Exec(fmt.Sprintf("UPDATE %s SET %s = ?1 WHERE %[2]s > ?1", column[0], column[1]), t.now); err != nil {
			return err
		}
	}
	return nil
}

// mergePages is the number of pages of the index, about 2 MB, that one transaction writes
// while it merges.
const mergePages = 500

// mergeIndex merges the index into one segment. Until then, deleted words are only
// hidden. FTS5 can delete words at once, but that took 15 ms a video.
func (c *Catalog) mergeIndex(ctx context.Context) error {
	for pages, changed := -mergePages, int64(2); changed >= 2; pages = mergePages { // fewer changes mean no progress
		err := c.change(ctx, func(tx *tx) error {
			before, err := tx.Number("SELECT total_changes()")
			if err != nil {
				return err
			}
			if _, err := tx.Exec("index_merge", pages); err != nil {
				return err
			}
			after, err := tx.Number("SELECT total_changes()")
			changed = after - before
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
		_, err := tx.Exec("expire_runs", before)
		return err
	}))
}

// truncateWAL copies the -wal into the database and empties it, unless someone reads.
func (c *Catalog) truncateWAL(ctx context.Context) error {
	return c.hold(ctx, func(s *sqlitefile.Session) error {
		_, err := s.One("PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
}
