package catalog

import (
	"context"
	"embed"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// steps are the steps of the schema; the first makes version 1.
var steps = sqlitefile.Steps(schemaFiles)

// migrate brings the file to the schema that this program knows, in one
// transaction.
func (c *Catalog) migrate(ctx context.Context, steps []string) error {
	return c.transact(ctx, func(tx *tx) error {
		err := files.Migrate(steps,
			func(query string) (n int64, err error) {
				err = tx.QueryRowContext(ctx, query).Scan(&n)
				return n, err
			},
			func(text string) error {
				_, err := tx.ExecContext(ctx, text)
				return err
			})
		if err != nil {
			return err
		}
		return reword(ctx, tx)
	})
}

// reword makes the index anew if it was made with other words.
func reword(ctx context.Context, tx *tx) error {
	var made string
	if err := tx.QueryRowContext(ctx, "SELECT words FROM about").Scan(&made); err != nil || made == wordsVersion {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO search (search) VALUES ('rebuild'); UPDATE about SET words = ?", wordsVersion)
	return err
}
