// Package sqlitefile opens, migrates and uses the SQLite files of this module. A [Kind]
// describes files of one purpose, a [File] is an open file, and a [Session] is a connection
// that runs transactions. The package also waits for busy files, detects files that were
// replaced, and says in an error what to do.
package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kind is a kind of file, such as a ledger.
type Kind struct {
	// Name is the name of such a file: a ledger. An example file is ledger.db.
	Name string
	// Application is the application_id that marks files of this kind.
	Application int64
	// Spared names the data that must survive a power cut: "what is granted".
	Spared string
	// Full and Damaged say what to do if the disk is full or the file is damaged.
	Full, Damaged string
	// Steps are the steps of the schema. Statements are the statements of sessions.
	Steps      []string
	Statements map[string]string
	// Pragmas are set on every connection, after those that all kinds share.
	Pragmas []string
	// Settings are read back, after those that all kinds share.
	Settings []Setting
}

// Create creates an empty file at path, which only its owner can read. SQLite gives the
// -wal and -shm beside it the same mode. An existing file stays unchanged. If Create fails,
// SQLite reports the reason when it opens the file.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	return f.Close()
}

// ErrNoName says that a path names no file.
var ErrNoName = errors.New("name a file")

// Path returns the absolute path, or an error that says why no file can be there. SQLite's
// own error says less.
func (k *Kind) Path(path string) (string, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") {
		return "", fmt.Errorf("open %s %q: %w", k.Name, path, ErrNoName)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", k.Name, err)
	}
	if info, err := os.Stat(whole); err == nil && info.IsDir() {
		return "", fmt.Errorf("open %s: it is a directory; name a file in it, such as %s", whole, filepath.Join(whole, k.Name+".db"))
	}
	dir := filepath.Dir(whole)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("open %s: there is no directory %s; make it: mkdir -p '%s'", whole, dir, dir)
	case err != nil:
		return "", fmt.Errorf("open %s: %w", whole, err)
	case !info.IsDir():
		return "", fmt.Errorf("open %s: %s is a file, not a directory", whole, dir)
	}
	return whole, nil
}

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

// read reads the marks of a session's file, and refuses one of another program.
func (k *Kind) read(s *Session) (marks, error) {
	m, err := readMarks(s.Number)
	if err == nil {
		err = k.refuse(m)
	}
	return m, err
}

// look refuses a file of another program before a connection makes it a WAL file. It
// reports nothing about a file that it cannot read. Opening that file does.
func (k *Kind) look(ctx context.Context, path string) error {
	s, err := Raw(ctx, path, url.Values{"mode": {"rw"}, "_query_only": {"ON"}})
	if err != nil {
		return nil
	}
	m, err := readMarks(s.Number)
	if err != nil {
		return s.Close()
	}
	return errors.Join(k.refuse(m), s.Close())
}

// LookAt refuses a file that is not of this kind, or too new for this program.
func (k *Kind) LookAt(s *Session) error {
	_, err := k.read(s)
	return err
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
			m, err := k.read(s)
			schema, older = m.version, k.older(m)
			return err
		})
	})
	return schema, older, err
}

// migrate brings a file to the schema that this program knows, in a transaction of the
// caller. It also writes to a file that is up to date. In a read-only file a transaction can
// begin, so only a write shows the fault.
func (k *Kind) migrate(s *Session) error {
	m, err := k.read(s)
	if err != nil {
		return err
	}
	for _, step := range k.Steps[m.version:] {
		if err := s.Script(step); err != nil {
			return err
		}
	}
	return s.Script(fmt.Sprintf("PRAGMA user_version = %d", len(k.Steps)))
}
