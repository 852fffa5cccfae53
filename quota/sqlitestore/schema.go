package sqlitestore

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// application marks a file as a ledger of Headroom: see 0001_ledger.sql.
const application = 1215456356

// steps returns the steps of the schema; the first makes version 1.
func steps() ([]string, error) {
	names, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	var all []string
	for i, name := range names {
		if want := fmt.Sprintf("schema/%04d_", i+1); !strings.HasPrefix(name, want) {
			return nil, fmt.Errorf("schema file %s should begin with %s", name, want)
		}
		text, err := schemaFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// migrate brings a file to the schema that this program knows, within the
// caller's transaction. A file that is not ours is refused as it is. One that is up
// to date is written all the same, to the same effect: a transaction can begin, but
// not write, in a file that is read-only.
func migrate(ctx context.Context, c conn) error {
	steps, err := steps()
	if err != nil {
		return err
	}
	var found [3]int64
	for i, query := range []string{"PRAGMA user_version", "PRAGMA application_id", "SELECT count(*) FROM sqlite_schema"} {
		if found[i], err = number(ctx, c, query); err != nil {
			return err
		}
	}
	version, marked, tables := int(found[0]), found[1], found[2]
	switch {
	case tables > 0 && marked != application:
		return fmt.Errorf("it is a database of another program, with %d tables and indexes that are not ours; name another file", tables)
	case version > len(steps):
		return fmt.Errorf("it was made by a newer headroom: schema %d, this one knows %d; upgrade", version, len(steps))
	}
	for _, step := range steps[version:] {
		if _, err := c.ExecContext(ctx, step, nil); err != nil {
			return err
		}
	}
	_, err = c.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)), nil)
	return err
}

// number returns the one number that a query has for an answer.
func number(ctx context.Context, c driver.QueryerContext, query string) (int64, error) {
	value, err := answer(ctx, c, query)
	n, _ := value.(int64)
	return n, err
}

// answer returns the one value that a query has for an answer, or nil.
func answer(ctx context.Context, c driver.QueryerContext, query string) (_ driver.Value, err error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return value[0], nil
}
