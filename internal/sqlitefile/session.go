package sqlitefile

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Session is a connection with its prepared statements. It runs one transaction at a
// time. It uses the driver directly: the pool of database/sql takes a tenth of the time
// of a reservation.
type Session struct {
	conn       conn
	statements map[string]string
	prepared   map[string]stmt
	args       []driver.NamedValue // scratch
	ctx        context.Context     // of the transaction
}

// conn and stmt are the methods of the driver's connections and statements.
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

// Connect opens a session with the file at path.
func (k *Kind) Connect(ctx context.Context, path string, mode Mode) (*Session, error) {
	connector, err := k.Connector(k.DSN(path, mode))
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newSession(c, k.Statements), nil
}

// Raw opens a session with the file at path that has only the given parameters, and no
// statements. Its statements end with the context.
func Raw(ctx context.Context, path string, q url.Values) (*Session, error) {
	connector, err := sqlite.NewConnector(URI(path, q))
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s := newSession(c, nil)
	s.Within(ctx)
	return s, nil
}

func newSession(c driver.Conn, statements map[string]string) *Session {
	return &Session{conn: c.(conn), statements: statements, prepared: map[string]stmt{}, ctx: context.Background()}
}

// Close closes the connection.
func (s *Session) Close() error {
	var failed error
	for _, p := range s.prepared {
		failed = errors.Join(failed, p.Close())
	}
	return errors.Join(failed, s.conn.Close())
}

// Begin starts a transaction that writes. It rolls back a transaction that an earlier
// fault left open.
func (s *Session) Begin() error {
	err := s.do("BEGIN IMMEDIATE")
	if Code(err) == sqlite3.SQLITE_ERROR {
		s.Rollback()
		err = s.do("BEGIN IMMEDIATE")
	}
	return err
}

// Within interrupts the statements of the transaction when the context ends. Without it
// they run to their end, and cost less.
func (s *Session) Within(ctx context.Context) { s.ctx = ctx }

// View starts a transaction that only reads. It sees the file as it is now.
func (s *Session) View() error {
	if err := s.do("BEGIN"); err != nil {
		return err
	}
	_, err := s.One("SELECT 1 FROM sqlite_schema LIMIT 1") // the first read fixes the state
	if err != nil {
		s.Rollback()
	}
	return err
}

// End commits the transaction, or rolls it back if err is not nil or the commit fails.
func (s *Session) End(err error) error {
	s.ctx = context.Background()
	if err == nil {
		err = s.do("COMMIT")
	}
	if err != nil {
		s.Rollback()
	}
	return err
}

// Rollback ends the transaction without a trace.
func (s *Session) Rollback() {
	s.ctx = context.Background()
	_ = s.do("ROLLBACK") // it has no other end
}

// Number returns the one number that a query has for an answer. It does not prepare it.
func (s *Session) Number(query string) (int64, error) { return Number(s.ctx, s.conn, query) }

// Script runs statements that take no arguments. It does not prepare them.
func (s *Session) Script(text string) error {
	_, err := s.conn.ExecContext(s.ctx, text, nil)
	return err
}

// Exec runs a statement and returns the number of rows that it changed. A statement
// without a name is its own text, here and below.
func (s *Session) Exec(name string, args ...driver.Value) (int64, error) {
	res, err := s.run(name, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Insert runs a statement that adds a row, and returns its number.
func (s *Session) Insert(name string, args ...driver.Value) (int64, error) {
	res, err := s.run(name, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// One returns the last row of a query, or nil if it has none or fails.
func (s *Session) One(name string, args ...driver.Value) (last Row, err error) {
	err = s.Rows(name, args, func(r Row) error {
		last = r
		return nil
	})
	if err != nil {
		return nil, err
	}
	return last, nil
}

// Rows calls each for every row of a query. The row is valid until each returns, but its
// texts and blobs stay.
func (s *Session) Rows(name string, args []driver.Value, each func(Row) error) error {
	return s.named(name, s.rows(name, args, each))
}

func (s *Session) named(name string, err error) error {
	if err != nil && s.statements[name] != "" {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// do runs a statement that has neither a name nor arguments.
func (s *Session) do(text string) error {
	_, err := s.run(text, nil)
	return err
}

func (s *Session) run(name string, args []driver.Value) (res driver.Result, err error) {
	p, values, err := s.prepare(name, args)
	if err == nil {
		res, err = p.ExecContext(s.ctx, values)
	}
	return res, s.named(name, err)
}

func (s *Session) rows(name string, args []driver.Value, each func(Row) error) error {
	p, values, err := s.prepare(name, args)
	if err != nil {
		return err
	}
	rows, err := p.QueryContext(s.ctx, values)
	if err != nil {
		return err
	}
	row := make(Row, len(rows.Columns()))
	for err == nil {
		if err = rows.Next(row); err == nil {
			err = each(row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// prepare returns a statement, which it compiles at the first call, and its arguments.
func (s *Session) prepare(name string, args []driver.Value) (stmt, []driver.NamedValue, error) {
	p := s.prepared[name]
	if p == nil {
		text, ok := s.statements[name]
		if !ok {
			text = name
		}
		made, err := s.conn.PrepareContext(context.Background(), text)
		if err != nil {
			return nil, nil, err
		}
		p = made.(stmt)
		s.prepared[name] = p
	}
	values, err := s.values(args)
	return p, values, err
}

// values numbers and converts arguments. They are valid until the next statement.
func (s *Session) values(args []driver.Value) ([]driver.NamedValue, error) {
	s.args = s.args[:0]
	for i, arg := range args {
		if t, ok := arg.(time.Time); ok {
			arg = Micros(t)
		}
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.args, nil
}

// Micros returns a time as the tables hold it: see [Row.Time].
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Row is a row that SQLite returns. The tables are STRICT: a column has the type that
// the schema says, or is NULL, which reads as zero.
type Row []driver.Value

// Int returns a column that holds an integer.
func (r Row) Int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

// Bool returns a column that holds a truth value.
func (r Row) Bool(i int) bool { return r.Int(i) != 0 }

// Text returns a column that holds a text.
func (r Row) Text(i int) string {
	s, _ := r[i].(string)
	return s
}

// Blob returns a column that holds bytes.
func (r Row) Blob(i int) []byte {
	b, _ := r[i].([]byte)
	return b
}

// Time returns a column that holds a time: microseconds since 1970 UTC, or 0 for the zero
// time. An argument of a statement may be a time, too.
func (r Row) Time(i int) time.Time {
	if us := r.Int(i); us != 0 {
		return time.UnixMicro(us).UTC()
	}
	return time.Time{}
}

// Scan copies the columns, as [database/sql.Row.Scan] does. A *int64 is nil for NULL.
func (r Row) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			*d = r.Int(i)
		case *int:
			*d = int(r.Int(i))
		case **int64:
			if *d = nil; r[i] != nil {
				n := r.Int(i)
				*d = &n
			}
		case *string:
			*d = r.Text(i)
		case *bool:
			*d = r.Bool(i)
		case *time.Time:
			*d = r.Time(i)
		case *any:
			*d = r[i]
		default:
			return fmt.Errorf("column %d: cannot be copied into %T", i, d)
		}
	}
	return nil
}
