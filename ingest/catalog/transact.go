package catalog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

var (
	steps      = sqlitefile.Steps(schemaFiles)
	statements = sqlitefile.ReadStatements(sqlFiles)
)

// files describes the files of this package.
var files = &sqlitefile.Kind{
	Name:        "catalog",
	Application: 1215458659, // see 0001_catalog.sql
	Spared:      "a page that was paid for",
	Full:        "make room, and the next run goes on where this one stopped",
	Damaged:     "restore a backup, or move the file away and fetch again; doctor repairs only the index of words",
	Pragmas:     []string{"secure_delete(1)", "cache_size(-65536)", "temp_store(2)"},
	Settings:    []sqlitefile.Setting{{Pragma: "secure_delete", Want: "1", Otherwise: "deleted data would stay in the file"}},
}

// fault says which operation on the file failed, and what to do.
func (c *Catalog) fault(doing string, err error) error { return files.Fault(doing, c.path, err) }

// readers is the number of connections that read.
const readers = 4

// tx is a transaction that holds the file's write lock.
type tx struct {
	*sqlitefile.Session
	now int64 // read while the lock is held
}

// change runs a transaction that writes. It fails if another version of the program has
// rebuilt the index since the file was opened.
func (c *Catalog) change(ctx context.Context, do func(*tx) error) error {
	return c.transact(ctx, func(tx *tx) error {
		words, err := tx.One("words_find")
		if err != nil {
			return err
		}
		if made := words.Text(0); made != wordsVersion {
			return fmt.Errorf("another version of the program rebuilt its index, for %s; stop the older one, and start this one again", made)
		}
		return do(tx)
	})
}

// transact runs a transaction. If do fails, nothing is written.
func (c *Catalog) transact(ctx context.Context, do func(*tx) error) error {
	return c.hold(ctx, func(s *sqlitefile.Session) error {
		if err := c.retry(ctx, func() error { return s.Begin(ctx) }); err != nil {
			return err
		}
		err := do(&tx{s, micros(c.clock.Now())})
		if err == nil {
			err = c.file.Check() // data in another file would be lost
		}
		if err != nil {
			s.Rollback()
			return err
		}
		return s.End(nil)
	})
}

// hold calls do when no one else uses the session that writes.
func (c *Catalog) hold(ctx context.Context, do func(*sqlitefile.Session) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.writer == nil {
		return errClosed
	}
	return do(c.writer)
}

// retry repeats do while the file is busy, as long as the options and the context allow.
// It fails if the file is not the one that was opened.
func (c *Catalog) retry(ctx context.Context, do func() error) error {
	if err := c.file.Check(); err != nil {
		return err
	}
	p := sqlitefile.NewPatience(ctx, c.path, c.wait)
	defer p.End()
	return p.Retry(do)
}

// each calls row for every row of a query.
func (c *Catalog) each(ctx context.Context, row func(*sql.Rows) error, query string, args ...any) (err error) {
	var rows *sql.Rows
	err = c.retry(ctx, func() (err error) {
		rows, err = c.read.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // below
		return err
	})
	if err != nil {
		return c.fault("read", err)
	}
	defer func() { err = c.fault("read", errors.Join(err, rows.Close())) }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// migrate brings the file to the schema that this program knows, in one transaction. It
// rebuilds the index if the file has another version of its words.
func (c *Catalog) migrate(ctx context.Context, steps []string) error {
	return c.transact(ctx, func(tx *tx) error {
		if err := files.Migrate(steps, tx.Number, tx.Script); err != nil {
			return err
		}
		words, err := tx.One("words_find")
		if err != nil || words.Text(0) == wordsVersion {
			return err
		}
		if _, err := tx.Exec("index_rebuild"); err != nil {
			return err
		}
		_, err = tx.Exec("words_save", wordsVersion)
		return err
	})
}
