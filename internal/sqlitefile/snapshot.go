package sqlitefile

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

// Snapshot copies the file at path, as it is at one instant, to a path where there is
// nothing. Who has the file open may go on writing; it is not written here, nor is
// anything beside it that was not there.
func Snapshot(ctx context.Context, path, to string) error {
	return Untouched(ctx, path, func(s *Session) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a try before
			return err
		}
		_, err := s.Exec("VACUUM INTO ?", to)
		return err
	})
}

// tries is how often a file is read of which others take hold meanwhile.
const tries = 3

// Untouched has do read the file at path, which is not written, nor is anything beside
// it that was not there: it needs no right to write. What nobody has open is read
// without a lock, and do begins anew where somebody took hold of it meanwhile.
func Untouched(ctx context.Context, path string, do func(*Session) error) error {
	real, err := filepath.EvalSymlinks(path) // SQLite puts its files beside the real one
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		before, err := os.Stat(real)
		if err != nil {
			return err
		}
		alone := !exists(real + "-wal")
		err = reading(ctx, real, alone, do)
		if !alone || try == tries {
			return err
		}
		if after, gone := os.Stat(real); gone == nil && after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()) && !exists(real+"-wal") {
			return err
		}
	}
}

// reading has do read a file; alone says that nobody else has it open, so that reading
// it need not make a -wal.
func reading(ctx context.Context, path string, alone bool, do func(*Session) error) (err error) {
	q := url.Values{"mode": {"ro"}}
	if alone {
		q.Set("immutable", "1")
	}
	connector, err := sqlite.NewConnector(URI(path, q))
	if err != nil {
		return err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return err
	}
	s := newSession(c, nil)
	s.Within(ctx)
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
