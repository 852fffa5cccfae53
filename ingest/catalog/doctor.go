package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Check looks for damage and returns a description of what it finds, or nil. It reads the
// whole file. Other writers wait for part of that time.
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
	if sqlitefile.Damaged(err) {
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
	err = c.transact(ctx, func(s *sqlitefile.Session) error {
		return s.Rows(query, nil, func(row sqlitefile.Row) error {
			all = append(all, strings.Split(row.Text(0), "\n")...)
			return nil
		})
	})
	return all, err
}
