package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// writer is the one connection that writes. Whoever holds its turn has it, and
// what the store remembers between transactions, for itself. It is the driver's
// own: the pool of database/sql would cost a tenth of a reservation.
type writer struct {
	turn  chan struct{} // holds a token while nobody writes
	conn  conn
	stmts map[statement]stmt
	args  []driver.NamedValue // scratch
	page  []byte              // scratch
}

// conn and stmt are what the driver's connections and statements can do.
type conn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// openWriter opens the connection that writes and brings the schema up to date.
func (s *Store) openWriter(ctx context.Context) (*writer, error) {
	c, err := files.Connector(files.DSN(s.path, sqlitefile.Write))
	if err != nil {
		return nil, s.fault("open", err)
	}
	w := &writer{turn: make(chan struct{}, 1)}
	if err := w.open(ctx, s, c); err != nil {
		err = s.fault("open", err)
		if w.conn != nil {
			err = errors.Join(err, w.conn.Close())
		}
		return nil, err
	}
	w.turn <- struct{}{}
	return w, nil
}

func (w *writer) open(ctx context.Context, s *Store, c driver.Connector) error {
	if err := files.Look(ctx, s.path, steps); err != nil {
		return err
	}
	p := sqlitefile.NewPatience(ctx, s.path, s.wait)
	defer p.End()
	err := p.Retry(func() error { // a new file is locked to make it a WAL file
		opened, err := c.Connect(ctx)
		if err == nil {
			w.conn = opened.(conn)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := p.Retry(func() error { return w.exec(begin) }); err != nil {
		return err
	}
	if err := migrate(ctx, w.conn); err != nil {
		return errors.Join(err, w.exec(rollback))
	}
	if err := w.exec(commit); err != nil {
		return err
	}
	w.stmts, err = prepare(ctx, w.conn)
	return err
}

// exec runs a statement that is not prepared yet.
func (w *writer) exec(st statement) error {
	_, err := w.conn.ExecContext(context.Background(), string(st), nil)
	return err
}

var errClosed = errors.New("it was closed by this process")

// take takes the turn to write.
func (w *writer) take(p *sqlitefile.Patience) error {
	var open bool
	select {
	case _, open = <-w.turn:
	default:
		select {
		case _, open = <-w.turn:
		case <-p.Wait():
			return p.Over(nil)
		}
	}
	if !open {
		return errClosed
	}
	return nil
}

// close waits for the transaction under way.
func (w *writer) close() error {
	if _, open := <-w.turn; !open {
		return nil
	}
	close(w.turn)
	var failed error
	for _, st := range w.stmts {
		failed = errors.Join(failed, st.Close())
	}
	return errors.Join(failed, w.conn.Close())
}

// tx is a transaction that holds the file's write lock. Its statements take no
// context: once begun it is short, and ends whole.
type tx struct {
	s   *Store
	w   *writer
	now time.Time // by the store's clock, read while the lock is held
}

// transact runs a transaction. If do fails nothing is written.
func (s *Store) transact(ctx context.Context, do func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := sqlitefile.NewPatience(ctx, s.path, s.wait)
	defer p.End()
	if err := s.write.take(p); err != nil {
		return s.fault("write to", err)
	}
	defer func() { s.write.turn <- struct{}{} }()
	t := &tx{s: s, w: s.write}
	if err := p.Retry(t.begin); err != nil {
		return s.fault("write to", err)
	}
	t.now, s.saved = s.clock.Now(), s.saved[:0]
	err := do(t)
	if err == nil {
		err = moved(s.file.Check())
	}
	if err == nil {
		err = t.exec(commit)
	}
	if err != nil {
		clear(s.known) // may be of what was not written
		_ = t.exec(rollback)
		return err
	}
	return s.rememberOutside(ctx, s.saved)
}

// begin begins, also where a fault has left a transaction open.
func (t *tx) begin() error {
	_, err := t.run(begin)
	if sqlitefile.Code(err) == sqlite3.SQLITE_ERROR {
		_, _ = t.run(rollback)
		_, err = t.run(begin)
	}
	return err
}

// run runs a statement.
func (t *tx) run(st statement, args ...driver.Value) (driver.Result, error) {
	return t.w.stmts[st].ExecContext(context.Background(), t.w.named(args))
}

// named numbers arguments, in scratch that lasts until the next statement.
func (w *writer) named(args []driver.Value) []driver.NamedValue {
	w.args = w.args[:0]
	for i, v := range args {
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return w.args
}

// exec runs a statement.
func (t *tx) exec(st statement, args ...driver.Value) error {
	if _, err := t.run(st, args...); err != nil {
		return t.s.fault("write to", fmt.Errorf("%s: %w", st, err))
	}
	return nil
}

// insert runs a statement that adds a row, and returns its number.
func (t *tx) insert(st statement, args ...driver.Value) (int64, error) {
	res, err := t.run(st, args...)
	if err != nil {
		return 0, t.s.fault("write to", fmt.Errorf("%s: %w", st, err))
	}
	return res.LastInsertId()
}

// rows reads rows one by one.
func (t *tx) rows(st statement, args []driver.Value, each func(row) error) error {
	rows, err := t.w.stmts[st].QueryContext(context.Background(), t.w.named(args))
	if err != nil {
		return t.s.fault("read", fmt.Errorf("%s: %w", st, err))
	}
	values := make(row, len(rows.Columns()))
	for err == nil {
		if err = rows.Next(values); err == nil {
			err = each(values)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, rows.Close()); err != nil {
		return t.s.fault("read", fmt.Errorf("%s: %w", st, err))
	}
	return nil
}

// one reads one row, or nil if there is none.
func (t *tx) one(st statement, args ...driver.Value) (r row, err error) {
	err = t.rows(st, args, func(got row) error {
		r = got
		return nil
	})
	return r, err
}

// row is what SQLite returns. The tables are STRICT, so a column has the type
// that the schema says, or is NULL, which reads as zero.
type row []driver.Value

func (r row) int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r row) text(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r row) blob(i int) []byte {
	b, _ := r[i].([]byte)
	return b
}
