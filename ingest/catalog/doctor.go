package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Check looks for damage and returns what it finds, in words; nothing is nil. It
// reads the whole file, and others wait with their writing meanwhile.
func (c *Catalog) Check(ctx context.Context) (problems []string, err error) {
	err = c.change(ctx, func(tx *tx) error {
		problems = nil
		for _, query := range []string{
			"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
			`SELECT format('%d rows of %s belong to no row of %s', count(*), "table", parent) FROM pragma_foreign_key_check GROUP BY "table", parent`,
		} {
			found, err := tx.lines(query)
			if err != nil {
				return err
			}
			problems = append(problems, found...)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
		if sqlitefile.Damaged(err) {
			problems, err = append(problems, "the index of words is not that of the videos: rebuild it"), nil
		}
		return err
	})
	if sqlitefile.Damaged(err) {
		return append(problems, "it cannot be read to its end: "+err.Error()), nil
	}
	return problems, c.fault("check", err)
}

// Rebuild makes the index of words anew.
func (c *Catalog) Rebuild(ctx context.Context) error {
	return c.fault("rebuild the index of", c.change(ctx, func(tx *tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO search (search) VALUES ('rebuild')")
		return err
	}))
}

// lines returns the texts that a query has for an answer.
func (t *tx) lines(query string) (all []string, err error) {
	rows, err := t.QueryContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, fmt.Errorf("%s: %w", query, err)
		}
		all = append(all, line)
	}
	return all, rows.Err()
}
