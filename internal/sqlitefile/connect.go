package sqlitefile

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// busyTimeout is in milliseconds. It is short because a waiting statement does not notice its
// context. [Patience] retries.
const busyTimeout = 5

// checkpoint is the number of pages in the -wal, some 16 MB, after which SQLite copies them
// into the database. A reservation writes three pages, so SQLite's own 1,000 would have every
// 300th wait for two more fsyncs.
const checkpoint = 4000

// Setting is a pragma that every connection reads back, because SQLite ignores some pragmas
// without an error.
type Setting struct{ Pragma, Want, Otherwise string }

// settings returns the settings of every file, and then those of its kind.
func (k *Kind) settings() []Setting {
	return append([]Setting{
		{"synchronous", "2", k.Spared + " would not survive a power cut"},
		{"journal_mode", "wal", "the file system may lack shared memory, as network file systems do; keep the " + k.Name + " on a local disk"},
		{"foreign_keys", "1", "rows could lose what they belong to"},
		{"wal_autocheckpoint", fmt.Sprint(checkpoint), "the -wal could grow"},
		{"busy_timeout", fmt.Sprint(busyTimeout), "a busy file would not be waited for"},
	}, k.Settings...)
}

// Mode says whether a connection reads or writes.
type Mode int

const (
	// Read reads an existing file.
	Read Mode = iota
	// Write reads and writes, and creates a missing file.
	Write
)

// DSN returns the data source name of the file at path.
func (k *Kind) DSN(path string, mode Mode) string {
	q := url.Values{}
	q.Set("_busy_timeout", fmt.Sprint(busyTimeout))
	q.Set("_journal_mode", "WAL")
	q.Set("_synchronous", "FULL")
	q.Set("_foreign_keys", "ON")
	q["_pragma"] = append([]string{fmt.Sprintf("wal_autocheckpoint(%d)", checkpoint)}, k.Pragmas...)
	q.Set("_error_rc", "1") // without it, an error may hold the text of another operation
	q.Set("mode", "rwc")
	q.Set("_txlock", "immediate")
	if mode == Read {
		q.Set("mode", "rw") // reading a WAL file that no process has open needs the right to write
		q.Set("_txlock", "deferred")
		q.Set("_query_only", "ON")
	}
	return URI(path, q)
}

// URI returns the URI of the file at path for the driver, with these parameters.
func URI(path string, q url.Values) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/ledger.db
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// Connector returns a connector for a DSN of this kind. Its connections check their settings
// when they open.
func (k *Kind) Connector(dsn string) (driver.Connector, error) {
	c, err := sqlite.NewConnector(dsn)
	return connector{c, k.settings()}, err
}

type connector struct {
	driver.Connector
	settings []Setting
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range c.settings {
		got, err := Answer(ctx, conn.(driver.QueryerContext), "PRAGMA "+s.Pragma)
		if err == nil && fmt.Sprint(got) != s.Want {
			err = fmt.Errorf("%s is %v, not %s: %s", s.Pragma, got, s.Want, s.Otherwise)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// Answer returns the single value that a query returns, or nil.
func Answer(ctx context.Context, c driver.QueryerContext, query string) (_ driver.Value, err error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return value[0], nil
}

// Number returns the single number that a query returns.
func Number(ctx context.Context, c driver.QueryerContext, query string) (int64, error) {
	value, err := Answer(ctx, c, query)
	n, _ := value.(int64)
	return n, err
}
