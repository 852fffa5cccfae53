package catalog

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// application marks a file as a catalog of Headroom: see 0001_catalog.sql.
const application = 1215458659

// steps are the steps of the schema; the first makes version 1.
var steps = func() (all []string) {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for i, name := range names {
		if want := fmt.Sprintf("schema/%04d_", i+1); !strings.HasPrefix(name, want) {
			panic(fmt.Sprintf("schema file %s should begin with %s", name, want))
		}
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			panic(err) // it was embedded
		}
		all = append(all, string(text))
	}
	return all
}()

// migrate brings the file to the schema that this program knows, in one
// transaction. A file that is not ours is refused as it is. One that is up to date
// is written all the same, to the same effect: a transaction can begin, but not
// write, in a file that is read-only.
func (c *Catalog) migrate(ctx context.Context, steps []string) error {
	return c.transact(ctx, func(tx *tx) error {
		var version, marked, tables int
		err := tx.QueryRowContext(ctx, "SELECT (SELECT user_version FROM pragma_user_version), "+
			"(SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)").Scan(&version, &marked, &tables)
		if err != nil {
			return err
		}
		switch {
		case tables > 0 && marked != application:
			return fmt.Errorf("it is a database of another program, with %d tables and indexes that are not ours; name another file", tables)
		case version > len(steps):
			return fmt.Errorf("it was made by a newer headroom: schema %d, this one knows %d; upgrade", version, len(steps))
		}
		for _, step := range steps[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps))); err != nil {
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
