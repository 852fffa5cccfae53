package catalog

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Check looks for damage and returns what it finds, in words; nothing is nil. It
// reads the whole file, and for a part of that time others wait with their writing.
func (c *Catalog) Check(ctx context.Context) (problems []string, err error) {
	for _, query := range []string{
		"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
		`SELECT format('%d rows of %s belong to no row of %s', count(*), "table", parent) FROM pragma_foreign_key_check GROUP BY "table", parent`,
	} {
		found, err := c.lines(ctx, query)
		problems = append(problems, found...)
		if sqlitefile.Damaged(err) { // it cannot even read on
			problems, err = append(problems, "it cannot be read to its end: put back a backup, or move it away and fetch anew"), nil
		}
		if err != nil {
			return nil, c.fault("check", err)
		}
	}
	err = c.change(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
		return err
	})
	if sqlitefile.Damaged(err) {
		problems, err = append(problems, "the index of words is not that of the videos: rebuild it"), nil
	}
	return slices.Compact(problems), c.fault("check", err)
}

// Rebuild makes the index of words anew.
func (c *Catalog) Rebuild(ctx context.Context) error {
	return c.fault("rebuild the index of", c.change(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO search (search) VALUES ('rebuild')")
		return err
	}))
}

// lines returns the texts that a query has for an answer, line by line; beside an
// error those that came before it. It asks the connection that writes: another may
// remember an index that was made anew since.
func (c *Catalog) lines(ctx context.Context, query string) (all []string, err error) {
	var rows *sql.Rows
	err = c.patiently(ctx, func() (err error) {
		rows, err = c.write.QueryContext(ctx, query) //nolint:sqlclosecheck // below
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return all, err
		}
		all = append(all, strings.Split(text, "\n")...)
	}
	return all, rows.Err()
}
