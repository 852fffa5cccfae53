package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

// Snapshot copies the file at path, as it is at one moment, to a new file. Other processes
// may write to the file meanwhile. Snapshot writes neither to it nor beside it.
func Snapshot(ctx context.Context, path, to string) error {
	return Untouched(path, func(db *sql.DB) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier try
			return err
		}
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", to)
		return err
	})
}

// tries bounds how often a file is read again because other processes opened it meanwhile.
const tries = 3

// Untouched runs do on a read-only connection. It changes nothing on disk, and needs no
// right to write. A file that no process has open is read without a lock. If a process opens
// it meanwhile, do runs again.
func Untouched(path string, do func(*sql.DB) error) error {
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
		err = reading(real, alone, do)
		if !alone || try == tries {
			return err
		}
		if after, gone := os.Stat(real); gone == nil && after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()) && !exists(real+"-wal") {
			return err
		}
	}
}

// reading runs do on a file. If alone is set, no other process has the file open, so that
// reading needs no -wal.
func reading(path string, alone bool, do func(*sql.DB) error) (err error) {
	q := url.Values{"mode": {"ro"}}
	if alone {
		q.Set("immutable", "1")
	}
	c, err := sqlite.NewConnector(URI(path, q))
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(db)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
