package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// session is a connection with its prepared statements, for one transaction at a
// time. It is the driver's own: the pool of database/sql would cost a tenth of a
// reservation. Statements take no context: once begun a transaction is short, and
// ends whole.
type session struct {
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

func connect(ctx context.Context, path string, mode sqlitefile.Mode) (*session, error) {
	connector, err := files.Connector(files.DSN(path, mode))
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: c.(conn), stmts: make(map[statement]stmt)}, nil
}

func (s *session) close() error {
	var failed error
	for _, st := range s.stmts {
		failed = errors.Join(failed, st.Close())
	}
	return errors.Join(failed, s.conn.Close())
}

// begin begins to write, also where a fault has left a transaction open.
func (s *session) begin() error {
	err := s.do(begin)
	if sqlitefile.Code(err) == sqlite3.SQLITE_ERROR {
		_ = s.do(rollback)
		err = s.do(begin)
	}
	return err
}

// look begins to read. What is seen is fixed by the first read.
func (s *session) look() error {
	if err := s.do(beginLook); err != nil {
		return err
	}
	err := s.rows(firstLook, nil, func(row) error { return nil })
	if err != nil {
		_ = s.do(rollback)
	}
	return err
}

// prepared returns a statement, compiled when it is first needed.
func (s *session) prepared(st statement) (stmt, error) {
	if p := s.stmts[st]; p != nil {
		return p, nil
	}
	text, err := st.text()
	if err != nil {
		return nil, err
	}
	p, err := s.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	s.stmts[st] = p.(stmt)
	return s.stmts[st], nil
}

// do runs a statement.
func (s *session) do(st statement, args ...driver.Value) error {
	_, err := s.run(st, args...)
	return err
}

func (s *session) run(st statement, args ...driver.Value) (driver.Result, error) {
	p, err := s.prepared(st)
	if err != nil {
		return nil, err
	}
	return p.ExecContext(context.Background(), s.named(args))
}

// named numbers arguments, in scratch that lasts until the next statement.
func (s *session) named(args []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, v := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.args
}

// rows reads rows one by one.
func (s *session) rows(st statement, args []driver.Value, each func(row) error) error {
	p, err := s.prepared(st)
	if err != nil {
		return err
	}
	rows, err := p.QueryContext(context.Background(), s.named(args))
	if err != nil {
		return err
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
	return errors.Join(err, rows.Close())
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

// exec runs a statement of a transaction.
func (t *tx) exec(st statement, args ...driver.Value) error {
	_, err := t.insert(st, args...)
	return err
}

// insert runs a statement that adds a row, and returns its number.
func (t *tx) insert(st statement, args ...driver.Value) (int64, error) {
	res, err := t.run(st, args...)
	if err != nil {
		return 0, t.file.fault("write to", fmt.Errorf("%s: %w", st, err))
	}
	return res.LastInsertId()
}

// read reads rows of a transaction one by one.
func (t *tx) read(st statement, args []driver.Value, each func(row) error) error {
	if err := t.rows(st, args, each); err != nil {
		return t.file.fault("read", fmt.Errorf("%s: %w", st, err))
	}
	return nil
}

// one reads one row, or nil if there is none.
func (t *tx) one(st statement, args ...driver.Value) (r row, err error) {
	err = t.read(st, args, func(got row) error {
		r = got
		return nil
	})
	return r, err
}
