package journal

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// files are those that this package keeps.
var files = &sqlitefile.Kind{
	Name:        "journal",
	Application: 1215458666, // see 0001_journal.sql
	Spared:      "an admitted call",
	Full:        "make room: until then no call is admitted in an outage",
	Damaged:     "stop its users, move it away, and adjust what it had not yet told the ledger",
	Steps:       sqlfiles.Steps(schemaFiles),
}

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
	number := func(query string) (n int64, err error) {
		err = tx.QueryRowContext(ctx, query).Scan(&n)
		return n, err
	}
	exec := func(text string) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}
	kept, err := files.Keep(ctx, j.path, number)
	if err == nil {
		err = files.Migrate(number, exec)
	}
	if err != nil {
		err = errors.Join(err, tx.Rollback())
	} else {
		err = tx.Commit()
	}
	if err != nil && kept != "" { // the file is as it was
		err = errors.Join(err, os.Remove(kept))
	}
	if err != nil {
		return err
	}
	j.kept = cmp.Or(kept, j.kept) // what follows may be tried again
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
		err = fmt.Errorf("%s is %s, not %s: %s would not survive a power cut", pragma, got, want, files.Spared)
	}
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
