package catalog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// readers is how many may look at once.
const readers = 4

// busyTimeout is in milliseconds. It is short, because a statement that waits on
// it does not hear its context; who finds the file busy tries again.
const busyTimeout = 5

// settings are what every connection runs with, and reads back: one that SQLite did
// not take would go unnoticed otherwise.
var settings = []struct{ pragma, want, otherwise string }{
	{"journal_mode", "wal", "the file system may lack shared memory, as network file systems do; keep the catalog on a local disk"},
	{"synchronous", "2", "a page that was paid for would not survive a power cut"},
	{"foreign_keys", "1", "rows could lose what they belong to"},
	{"secure_delete", "1", "what is deleted would stay in the file"},
	{"busy_timeout", fmt.Sprint(busyTimeout), "a busy file would not be waited for"},
}

// connect opens a pool of connections to the file at path. Those of mode rw cannot
// write.
func connect(path, mode string, most int) (*sql.DB, error) {
	q := url.Values{}
	q.Set("mode", mode)
	q.Set("_txlock", "immediate")
	q.Set("_busy_timeout", fmt.Sprint(busyTimeout))
	q.Set("_journal_mode", "WAL")
	q.Set("_synchronous", "FULL")
	q.Set("_foreign_keys", "ON")
	q["_pragma"] = []string{"secure_delete(1)", "wal_autocheckpoint(4000)", "cache_size(-65536)", "temp_store(2)"}
	q.Set("_error_rc", "1") // no words of another operation in an error
	if mode == "rw" {
		q.Set("_query_only", "ON")
		q.Set("_txlock", "deferred")
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/catalog.db
		path = "/" + path
	}
	c, err := sqlite.NewConnector((&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector{c})
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// connector opens connections that have read their settings back.
type connector struct{ driver.Connector }

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range settings {
		got, err := setting(ctx, conn.(driver.QueryerContext), s.pragma)
		if err == nil && got != s.want {
			err = fmt.Errorf("%s is %s, not %s: %s", s.pragma, got, s.want, s.otherwise)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func setting(ctx context.Context, c driver.QueryerContext, pragma string) (_ string, err error) {
	rows, err := c.QueryContext(ctx, "PRAGMA "+pragma, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return fmt.Sprint(value[0]), nil
}
