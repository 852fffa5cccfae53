package catalog

import (
	"cmp"
	"context"
	"database/sql/driver"
	"embed"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/words"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

// files describes the files of this package.
var files = &sqlitefile.Kind{
	Name:        "catalog",
	Application: 1215458659, // see 0001_catalog.sql
	Spared:      "a page that was paid for",
	Full:        "make room, and the next run goes on where this one stopped",
	Damaged:     "restore a backup, or move the file away and fetch again; doctor repairs only the index of words",
	Steps:       sqlitefile.Steps(schemaFiles),
	Statements:  sqlitefile.ReadStatements(sqlFiles),
	Pragmas:     []string{"secure_delete(1)", "cache_size(-65536)", "temp_store(2)"},
	Settings:    []sqlitefile.Setting{{Pragma: "secure_delete", Want: "1", Otherwise: "deleted data would stay in the file"}},
}

// fault says which operation on the file failed, and what to do.
func (c *Catalog) fault(doing string, err error) error { return files.Fault(doing, c.file.Path, err) }

// tx is a transaction that holds the file's write lock.
type tx struct {
	*sqlitefile.Session
	now time.Time // read while the lock is held
}

// change runs a transaction that writes. It fails if another version of the program has
// rebuilt the index since the file was opened.
func (c *Catalog) change(ctx context.Context, do func(*tx) error) error {
	return c.transact(ctx, func(tx *tx) error {
		row, err := tx.One("words_find")
		if err != nil {
			return err
		}
		if made := row.Text(0); made != words.Version {
			return fmt.Errorf("another version of the program rebuilt its index, for %s; stop the older one, and start this one again", made)
		}
		return do(tx)
	})
}

// change runs a transaction behind the run's fence. The text doing goes into an error.
func (r *run) change(ctx context.Context, doing string, do func(*tx) error) error {
	return r.c.fault(doing+" in", r.c.change(ctx, func(tx *tx) error {
		if err := tx.checkFence(r.fence); err != nil {
			return err
		}
		return do(tx)
	}))
}

// transact runs a transaction. If do fails, nothing is written.
func (c *Catalog) transact(ctx context.Context, do func(*tx) error) error {
	return c.hold(ctx, func(s *sqlitefile.Session) error {
		if err := c.file.Identity.Check(); err != nil {
			return err
		}
		if err := c.file.Begin(ctx, c.wait); err != nil {
			return err
		}
		s.Within(ctx)
		return c.file.End(do(&tx{s, c.clock.Now().UTC().Truncate(time.Microsecond)}))
	})
}

// hold calls do when no one else uses the session that writes.
func (c *Catalog) hold(ctx context.Context, do func(*sqlitefile.Session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.file.Writer == nil {
		return sqlitefile.ErrClosed
	}
	return do(c.file.Writer)
}

// view calls do with a session that reads. All reads see the same state of the file.
func (c *Catalog) view(ctx context.Context, do func(*sqlitefile.Session) error) error {
	s, err := c.file.View(ctx)
	if err != nil {
		return err
	}
	s.Within(ctx)
	err = do(s)
	return c.fault("read", cmp.Or(c.file.Release(s), err))
}

// each calls row for every row of a query.
func (c *Catalog) each(ctx context.Context, row func(sqlitefile.Row) error, query string, args ...driver.Value) error {
	return c.view(ctx, func(s *sqlitefile.Session) error { return s.Rows(query, args, row) })
}

// one returns the row of a query, or nil if it has none or fails.
func (c *Catalog) one(ctx context.Context, query string, args ...driver.Value) (row sqlitefile.Row, err error) {
	err = c.view(ctx, func(s *sqlitefile.Session) error {
		row, err = s.One(query, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}
