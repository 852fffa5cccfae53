package sqlitestore

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"modernc.org/sqlite"
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

// marks are what a file says of itself.
type marks struct{ version, application, tables int64 }

func readMarks(ctx context.Context, c driver.QueryerContext) (m marks, err error) {
	for query, n := range map[string]*int64{
		"PRAGMA user_version": &m.version, "PRAGMA application_id": &m.application, "SELECT count(*) FROM sqlite_schema": &m.tables,
	} {
		if *n, err = number(ctx, c, query); err != nil {
			return m, err
		}
	}
	return m, nil
}

// refuse says why a file cannot be the ledger.
func (m marks) refuse(known int) error {
	switch {
	case m.tables > 0 && m.application != application:
		return fmt.Errorf("it is a database of another program, with %d tables and indexes that are not ours; name another file", m.tables)
	case m.version > int64(known):
		return fmt.Errorf("it was made by a newer headroom: schema %d, this one knows %d; upgrade", m.version, known)
	}
	return nil
}

// look refuses a file that is not ours as it is: to open it the ledger's way makes it
// a WAL file. What cannot be read here is for the opening to say.
func look(ctx context.Context, path string, known int) error {
	connector, err := sqlite.NewConnector(fileURL(path, url.Values{"mode": {"rw"}, "_query_only": {"ON"}}))
	if err != nil {
		return nil
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil
	}
	m, err := readMarks(ctx, c.(conn))
	if err != nil {
		return c.Close()
	}
	return errors.Join(m.refuse(known), c.Close())
}

// migrate brings a file to the schema that this program knows, within the
// caller's transaction. One that is up to date is written all the same, to the same
// effect: a transaction can begin, but not write, in a file that is read-only.
func migrate(ctx context.Context, c conn, steps []string) error {
	m, err := readMarks(ctx, c)
	if err != nil {
		return err
	}
	if err := m.refuse(len(steps)); err != nil {
		return err
	}
	for _, step := range steps[m.version:] {
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
