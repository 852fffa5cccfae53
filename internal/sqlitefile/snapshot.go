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

// Snapshot copies the file at path, as it is at one instant, to a path where there is
// nothing. Who has the file open may go on writing; it is not written here, nor is
// anything beside it that was not there.
func Snapshot(ctx context.Context, path, to string) error {
	return Untouched(path, func(db *sql.DB) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a try before
			return err
		}
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", to)
		return err
	})
}

// tries is how often a file is read of which others take hold meanwhile.
const tries = 3

// Untouched has do read the file at path, which is not written, nor is anything beside
// it that was not there: it needs no right to write. What nobody has open is read
// without a lock, and do begins anew where somebody took hold of it meanwhile.
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

// reading has do read a file; alone says that nobody else has it open, so that reading
// it need not make a -wal.
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
