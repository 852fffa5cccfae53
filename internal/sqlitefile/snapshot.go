package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"

	"modernc.org/sqlite"
)

// Snapshot copies the file at path, as it is at one instant, to a path where there is
// nothing. Who has the file open may go on writing; it is not written here, nor is
// anything beside it that was not there.
func Snapshot(ctx context.Context, path, to string) (err error) {
	q := url.Values{"mode": {"ro"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		q.Set("immutable", "1") // nobody has it open: to read it otherwise would make a -wal
	}
	c, err := sqlite.NewConnector(URI(path, q))
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	return err
}
