package catalog

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Check looks for damage and returns a description of what it finds, or nil. It reads the
// whole file. Other writers wait for part of that time. Of a catalog of [Inspect] it cannot compare the index of words
// with the videos.
func (c *Catalog) Check(ctx context.Context) (problems []string, err error) {
	for _, query := range []string{
		"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
		`SELECT format('%d rows of %s belong to no row of %s', count(*), "table", parent) FROM pragma_foreign_key_check GROUP BY "table", parent`,
	} {
		found, err := c.lines(ctx, query)
		problems = append(problems, found...)
		if sqlitefile.Damaged(err) { // the check itself could not go on
			problems, err = append(problems, "it cannot be read to its end: restore a backup, or move it away and fetch again"), nil
		}
		if err != nil {
			return nil, c.home.Fault("check", err)
		}
	}
	err = c.change(ctx, func(s *sqlitefile.Session) error {
		_, err := s.Exec("index_check")
		return err
	})
	switch {
	case c.file.Writer == nil:
		err = nil
	case sqlitefile.Damaged(err):
		problems, err = append(problems, "the index of words does not match the videos: rebuild it"), nil
	}
	return slices.Compact(problems), c.home.Fault("check", err)
}

// Rebuild makes the index of words again.
func (c *Catalog) Rebuild(ctx context.Context) error {
	return c.home.Fault("rebuild the index of", c.change(ctx, func(s *sqlitefile.Session) error {
		_, err := s.Exec("index_rebuild")
		return err
	}))
}

// lines returns the lines of the texts that a query returns. On an error it also returns
// the lines before it. The query runs in the session that writes: other connections may
// have cached an index that was rebuilt since.
func (c *Catalog) lines(ctx context.Context, query string) (all []string, err error) {
	read := func(s *sqlitefile.Session) error {
		return s.Rows(query, nil, func(row sqlitefile.Row) error {
			all = append(all, strings.Split(row.Text(0), "\n")...)
			return nil
		})
	}
	if c.file.Writer == nil {
		return all, c.file.Read(ctx, read)
	}
	return all, c.file.Write(ctx, c.wait, read)
}

func (f *file) Expired(ctx context.Context, l Limits, _ int) error {
	c := (*Catalog)(f)
	if err := c.mergeIndex(ctx); err != nil {
		return err
	}
	err := c.file.Hold(ctx, func(s *sqlitefile.Session) error { // copies the -wal into the database and empties it, unless someone reads
		_, err := s.One("PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
	if err != nil {
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
