package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// busyTimeout is in milliseconds. It is short, because a statement that waits on
// it does not hear its context; the writer tries again by itself.
const busyTimeout = 5

// checkpoint is after how many pages the -wal is copied into the database: some
// 16 MB. A reservation writes three pages, so SQLite's own 1,000 would have every
// 300th wait for two more fsyncs.
const checkpoint = 4000

// settings are what every connection runs with, and reads back: a setting that
// SQLite did not take would go unnoticed otherwise.
var settings = []setting{
	{"synchronous", "2", "what is granted would not survive a power cut"},
	{"journal_mode", "wal", "the file system may lack shared memory, as network file systems do; keep the ledger on a local disk"},
	{"foreign_keys", "1", "rows could lose what they belong to"},
	{"wal_autocheckpoint", fmt.Sprint(checkpoint), "the -wal could grow"},
	{"busy_timeout", fmt.Sprint(busyTimeout), "a busy file would not be waited for"},
}

type setting struct{ pragma, want, otherwise string }

// dsn names the file at path to the driver.
func dsn(path, mode string) string {
	q := url.Values{}
	q.Set("mode", mode)
	q.Set("_txlock", "immediate")
	q.Set("_busy_timeout", fmt.Sprint(busyTimeout))
	q.Set("_journal_mode", "WAL")
	q.Set("_synchronous", "FULL")
	q.Set("_foreign_keys", "ON")
	q.Set("_pragma", fmt.Sprintf("wal_autocheckpoint(%d)", checkpoint))
	q.Set("_error_rc", "1") // no words of another operation in an error
	return fileURL(path, q)
}

// fileURL is how SQLite is told of a file and how to open it.
func fileURL(path string, q url.Values) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/ledger.db
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// connector opens connections that have read their settings back.
type connector struct{ driver.Connector }

func newConnector(dsn string) (driver.Connector, error) {
	c, err := sqlite.NewConnector(dsn)
	return connector{c}, err
}

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		got, err := answer(ctx, conn.(driver.QueryerContext), "PRAGMA "+s.pragma)
		if err == nil && fmt.Sprint(got) != s.want {
			err = fmt.Errorf("%s is %v, not %s: %s", s.pragma, got, s.want, s.otherwise)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// readers is how many may look at once.
const readers = 4

// openReaders opens the pool of connections that cannot write.
func (s *Store) openReaders() (*sql.DB, error) {
	c, err := newConnector(dsn(s.path, "rw") + "&_query_only=ON")
	if err != nil {
		return nil, s.fault("open", err)
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db, nil
}
