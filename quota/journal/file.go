package journal

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
)

//go:embed schema.sql
var schema string

// What marks a file as a journal of Headroom, and its tables: see schema.sql.
const (
	application = 1215458666
	version     = 1
)

// prepare makes the tables, and reads back that what is committed is on the disk.
// A file that is not ours is refused as it is: not even made a WAL file.
func (j *Journal) prepare(ctx context.Context) error {
	if err := j.expect(ctx, "synchronous", "2"); err != nil {
		return err
	}
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := migrate(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := j.expect(ctx, "journal_mode = WAL", "wal"); err != nil {
		return err
	}
	j.file, err = os.Stat(j.path)
	return err
}

// expect runs a pragma that has to have an answer.
func (j *Journal) expect(ctx context.Context, pragma, want string) error {
	var got string
	err := j.db.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got)
	if err == nil && got != want {
		err = fmt.Errorf("%s is %s, not %s: an admitted call would not survive a power cut", pragma, got, want)
	}
	return err
}

// migrate brings a file to the schema that this program knows.
func migrate(ctx context.Context, tx *sql.Tx) error {
	var marked, found, tables int64
	err := tx.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`).Scan(&marked, &found, &tables)
	switch {
	case err != nil:
		return err
	case tables > 0 && marked != application:
		return fmt.Errorf("it is a database of another program, with %d tables and indexes that are not ours; name another file", tables)
	case found > version:
		return fmt.Errorf("it was made by a newer headroom: schema %d, this one knows %d; upgrade", found, version)
	}
	_, err = tx.ExecContext(ctx, schema)
	return err
}

// there returns an error if the file is not the one that was opened, or has lost
// its -wal: what is written then, no other process would ever see.
func (j *Journal) there() error {
	now, err := os.Stat(j.path)
	if err == nil && !os.SameFile(now, j.file) {
		err = errors.New("another file is in its place")
	}
	if err == nil {
		_, err = os.Stat(j.path + "-wal")
	}
	if err != nil {
		return fmt.Errorf("it was taken away while this process was using it; put it back, stop every process that uses it, and start again: %w", err)
	}
	return nil
}
