package sqlitefile

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"time"

	"modernc.org/sqlite"
)

// marks identify a file.
type marks struct{ version, application, tables int64 }

// readMarks reads the marks of a file. The function number returns the result of a query.
// It counts the tables first: if another process creates the file meanwhile, a file with
// tables must not seem to lack its mark.
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

// refuse returns an error if a file is not of this kind, or too new for this program.
func (k *Kind) refuse(m marks) error {
	switch {
	case m.tables > 0 && m.application != k.Application:
		return fmt.Errorf("it is a database of another program, with %d tables and indexes that are not ours; name another file", m.tables)
	case m.version > int64(len(k.Steps)):
		return fmt.Errorf("it was made by a newer headroom: schema %d, this one knows %d; upgrade", m.version, len(k.Steps))
	}
	return nil
}

// Look refuses a file of another program before a connection makes it a WAL file. It
// reports nothing about a file that it cannot read. Opening that file does.
func (k *Kind) Look(ctx context.Context, path string) error {
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
	return errors.Join(k.refuse(m), c.Close())
}

// LookAt is [Kind.Look] for a session.
func (k *Kind) LookAt(s *Session) error {
	m, err := readMarks(s.Number)
	if err != nil {
		return err
	}
	return k.refuse(m)
}

// older reports whether a file is one of an older schema.
func (k *Kind) older(m marks) bool { return m.tables > 0 && m.version < int64(len(k.Steps)) }

// olderWait is the longest time to wait for a busy file before its schema is read.
const olderWait = 2 * time.Second

// Older returns the schema of the file at path, if it is older than the one that this program
// knows. It changes nothing. If there is no file, the error is fs.ErrNotExist.
func (k *Kind) Older(ctx context.Context, path string) (schema int64, older bool, err error) {
	p := NewPatience(ctx, path, olderWait)
	defer p.End()
	err = p.Retry(func() error {
		return Untouched(ctx, path, func(s *Session) error {
			m, err := readMarks(s.Number)
			if err == nil {
				err = k.refuse(m)
			}
			schema, older = m.version, k.older(m)
			return err
		})
	})
	return schema, older, err
}

// Migrate brings a file to the schema that this program knows, in a transaction of the
// caller. There, number returns the result of a query, and exec runs statements. Migrate
// also writes to a file that is up to date. In a read-only file a transaction can begin, so
// only a write shows the fault.
func (k *Kind) Migrate(number func(query string) (int64, error), exec func(text string) error) error {
	m, err := readMarks(number)
	if err != nil {
		return err
	}
	if err := k.refuse(m); err != nil {
		return err
	}
	for _, step := range k.Steps[m.version:] {
		if err := exec(step); err != nil {
			return err
		}
	}
	return exec(fmt.Sprintf("PRAGMA user_version = %d", len(k.Steps)))
}
