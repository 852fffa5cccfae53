package catalog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// A statement is named by its file under sql.
type statement string

// text returns what SQLite is told. Nothing may follow the statement, not even a
// line's end: the driver would compile it anew each time.
func (s statement) text() string {
	b, err := sqlFiles.ReadFile("sql/" + string(s) + ".sql")
	if err != nil {
		panic(err) // there is no such file
	}
	return strings.TrimSpace(string(b))
}

// tx is a transaction that holds the file's write lock.
type tx struct {
	*sql.Tx
	c   *Catalog
	ctx context.Context
	now int64 // the catalog's time, read while the lock is held
}

// change runs a transaction on a file whose words are ours: another version of the
// program may have opened it since.
func (c *Catalog) change(ctx context.Context, do func(*tx) error) error {
	return c.transact(ctx, func(tx *tx) error {
		var words string
		if _, err := tx.one("words_find", nil, &words); err != nil {
			return err
		}
		if words != wordsVersion {
			return fmt.Errorf("another version of the program made its index anew, for %s; stop the older one, and start this one again", words)
		}
		return do(tx)
	})
}

// transact runs a transaction. If do fails, nothing is written.
func (c *Catalog) transact(ctx context.Context, do func(*tx) error) error {
	t := &tx{c: c, ctx: ctx}
	err := c.patiently(ctx, func() (err error) {
		t.Tx, err = c.write.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return err
	}
	t.now = micros(c.now())
	err = do(t)
	if err == nil {
		err = c.file.Check() // what is written to another, nobody finds again
	}
	if err != nil {
		if gone := t.Rollback(); gone != nil && !errors.Is(gone, sql.ErrTxDone) {
			err = errors.Join(err, gone)
		}
		return err
	}
	return t.Commit()
}

// patiently does something until it is not busy, for as long as the options and
// the context allow, with the file that was opened.
func (c *Catalog) patiently(ctx context.Context, do func() error) error {
	if err := c.file.Check(); err != nil {
		return err
	}
	p := sqlitefile.NewPatience(ctx, c.path, c.wait)
	defer p.End()
	return p.Retry(do)
}

// prepare compiles the statements for the connection that writes.
func (c *Catalog) prepare(ctx context.Context) error {
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		return err
	}
	for _, f := range files {
		name := statement(strings.TrimSuffix(f.Name(), ".sql"))
		st, err := c.write.PrepareContext(ctx, name.text()) //nolint:sqlclosecheck // Close does
		if err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		c.stmts[name] = st
	}
	return nil
}

// stmt returns a statement of the transaction, which closes it.
func (t *tx) stmt(s statement) *sql.Stmt {
	return t.StmtContext(t.ctx, t.c.stmts[s])
}

// exec runs a statement, and returns how many rows it changed.
func (t *tx) exec(s statement, args ...any) (int64, error) {
	res, err := t.run(s, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert runs a statement that adds a row, and returns its number.
func (t *tx) insert(s statement, args ...any) (int64, error) {
	res, err := t.run(s, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (t *tx) run(s statement, args []any) (sql.Result, error) {
	res, err := t.stmt(s).ExecContext(t.ctx, args...) //nolint:sqlclosecheck // the transaction does
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	return res, nil
}

// one reads one row into dest, and reports whether there was one.
func (t *tx) one(s statement, args []any, dest ...any) (bool, error) {
	err := t.stmt(s).QueryRowContext(t.ctx, args...).Scan(dest...) //nolint:sqlclosecheck // the transaction does
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s, err)
	}
	return true, nil
}

// rows reads the numbers of rows.
func (t *tx) rows(s statement, args ...any) (all []int64, err error) {
	rows, err := t.stmt(s).QueryContext(t.ctx, args...) //nolint:sqlclosecheck // the transaction does
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row int64
		if err := rows.Scan(&row); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// each reads rows one by one.
func (c *Catalog) each(ctx context.Context, row func(*sql.Rows) error, query string, args ...any) (err error) {
	var rows *sql.Rows
	err = c.patiently(ctx, func() (err error) {
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
