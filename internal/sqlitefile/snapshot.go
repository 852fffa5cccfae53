package sqlitefile

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// Snapshot copies the file at path, as it is at one instant, to a path without a file. Only
// its owner can read the copy.
// Other processes may write to the file meanwhile. Snapshot changes no file at path, and
// creates none beside it.
func Snapshot(ctx context.Context, path, to string) error {
	return Untouched(ctx, path, func(s *Session) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // from an earlier try
			return err
		}
		if err := Create(to); err != nil {
			return err
		}
		_, err := s.Exec("VACUUM INTO ?", to)
		return err
	})
}

// tries is the number of times to read a file that other processes open meanwhile.
const tries = 3

// Untouched runs do on a read-only session of the file at path. It changes and creates no
// file, and needs no permission to write. A file that no process has open is read without
// a lock. If a process opens it meanwhile, do is called again.
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

// reading runs do once. With alone, no other process has the file open, and SQLite needs no
// -wal to read it.
func reading(ctx context.Context, path string, alone bool, do func(*Session) error) (err error) {
	q := url.Values{"mode": {"ro"}}
	if alone {
		q.Set("immutable", "1")
	}
	s, err := Raw(ctx, path, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
