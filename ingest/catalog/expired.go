package catalog

import (
	"context"
	"errors"
	"os"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Expired implements [Home].
func (f *file) Expired(ctx context.Context, l Limits, _ int) error {
	c := (*Catalog)(f)
	if err := c.mergeIndex(ctx); err != nil {
		return err
	}
	if err := c.truncateWAL(ctx); err != nil {
		return err
	}
	return c.expireKept(ctx, l)
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

// mergePages is the number of pages of the index, about 2 MB, that one transaction writes
// while it merges.
const mergePages = 500

// mergeIndex merges the index into one segment. Until then, deleted words are only
// hidden. FTS5 can delete words at once, but that took 15 ms a video.
func (c *Catalog) mergeIndex(ctx context.Context) error {
	for pages, changed := -mergePages, int64(2); changed >= 2; pages = mergePages { // fewer changes mean no progress
		err := c.change(ctx, func(s *sqlitefile.Session) error {
			before, err := s.Number("SELECT total_changes()")
			if err != nil {
				return err
			}
			if _, err := s.Exec("index_merge", pages); err != nil {
				return err
			}
			after, err := s.Number("SELECT total_changes()")
			changed = after - before
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// truncateWAL copies the -wal into the database and empties it, unless someone reads.
func (c *Catalog) truncateWAL(ctx context.Context) error {
	return c.hold(ctx, func(s *sqlitefile.Session) error {
		_, err := s.One("PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
}
