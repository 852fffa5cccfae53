package sqlitefile

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"modernc.org/sqlite"
)

// Steps returns the steps of a schema: schema/0001_name.sql and so on. The first one makes
// version 1. It panics if the numbers are not consecutive.
func Steps(files fs.FS) (all []string) {
	names, err := fs.Glob(files, "schema/*.sql")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for i, name := range names {
		if want := fmt.Sprintf("schema/%04d_", i+1); !strings.HasPrefix(name, want) {
			panic(fmt.Sprintf("schema file %s should begin with %s", name, want))
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // it was embedded
		}
		all = append(all, string(text))
	}
	return all
}

// marks is the application id and the version of a file.
type marks struct{ version, application, tables int64 }

// readMarks reads the marks with a function that returns the number of a query. It counts
// tables first: another process may be creating the file, and a file with tables must not
// seem to lack its mark.
func readMarks(number func(query string) (int64, error)) (m marks, err error) {
	if m.tables, err = number("SELECT count(*) FROM sqlite_schema"); err != nil {
		return m, err
	}
	if m.application, err = number("PRAGMA application_id"); err != nil {
		return m, err
	}
	m.version, err = number("PRAGMA user_version")
	return m, err
}

// refuse returns an error if a file is of another kind, or of a newer program.
func (k *Kind) refuse(m marks, known int) error {
	switch {
	case m.tables > 0 && m.application != k.Application:
		return fmt.Errorf("it is a database of another program, with %d tables and indexes that are not ours; name another file", m.tables)
	case m.version > int64(known):
		return fmt.Errorf("it was made by a newer headroom: schema %d, this one knows %d; upgrade", m.version, known)
	}
	return nil
}

// Look returns an error if the file is not of this kind. It changes nothing, while opening by
// DSN makes the file a WAL file. It ignores files that it cannot read: opening them returns
// the error.
func (k *Kind) Look(ctx context.Context, path string, steps []string) error {
	connector, err := sqlite.NewConnector(URI(path, url.Values{"mode": {"rw"}, "_query_only": {"ON"}}))
	if err != nil {
		return nil
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil
	}
	m, err := readMarks(func(query string) (int64, error) { return Number(ctx, c.(driver.QueryerContext), query) })
	if err != nil {
		return c.Close()
	}
	return errors.Join(k.refuse(m, len(steps)), c.Close())
}

// LookAt is Look with an open connection.
func (k *Kind) LookAt(ctx context.Context, db *sql.DB, steps []string) error {
	m, err := readMarks(func(query string) (n int64, err error) {
		err = db.QueryRowContext(ctx, query).Scan(&n)
		return n, err
	})
	if err != nil {
		return err
	}
	return k.refuse(m, len(steps))
}

// Migrate brings a file to this program's schema, in a transaction of the caller: number
// returns the number of a query, and exec runs statements. It writes even if the file is up
// to date, to find out whether the file is read-only: there a transaction can begin but not
// write.
func (k *Kind) Migrate(steps []string, number func(query string) (int64, error), exec func(text string) error) error {
	m, err := readMarks(number)
	if err != nil {
		return err
	}
	if err := k.refuse(m, len(steps)); err != nil {
		return err
	}
	for _, step := range steps[m.version:] {
		if err := exec(step); err != nil {
			return err
		}
	}
	return exec(fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
}
