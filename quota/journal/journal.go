// Package journal is a small SQLite file that the processes of one machine share
// while their ledger is elsewhere. Calls that are admitted in an outage stand in it
// before they are sent, with the blocks that were met; they are put into the ledger
// when it is back. What stands in it uncharged is the part of the allowance that is
// used, so a process that crashes and starts again gets no fresh one. It also
// remembers when the pages in use were born, so that a ledger that lost its memory
// is found out.
//
// A call stands there as it was admitted, and beside it what it was settled to: the
// ledger is told of both, one after the other, so that trying again after a lost
// answer tells it the same. What makes trying again harmless is the receipt under
// the id of the call. It lives for an hour; so a process that dies between charging
// a call and crossing it out, on a machine where nobody replays for an hour after,
// counts that one call twice: over, never under.
package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/headroom-quota/headroom/quota"
)

// Journal is a [quota.Journal] and a [quota.Births]. It is safe for concurrent use,
// by several processes too.
type Journal struct {
	db   *sql.DB
	path string
	file os.FileInfo // as it was opened
}

var (
	_ quota.Journal = (*Journal)(nil)
	_ quota.Births  = (*Journal)(nil)
)

// Open opens the journal at path, and makes it if there is none. Its folder must be
// there, on a local disk.
func Open(ctx context.Context, path string) (*Journal, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("open journal %s: make its folder first: mkdir -p %s: %w", path, filepath.Dir(path), err)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "synchronous(FULL)", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	j := &Journal{db: db, path: path}
	err = j.prepare(ctx)
	for range 200 { // to make a new file a WAL file, SQLite waits for nobody else who does
		if !busy(err) || (quota.SystemClock{}).Sleep(ctx, 10*time.Millisecond) != nil {
			break
		}
		err = j.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, err), db.Close())
	}
	return j, nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.db.Close() }

// Path is where the file is.
func (j *Journal) Path() string { return j.path }

// write runs a transaction: all of it or nothing.
func (j *Journal) write(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return j.fault("write to", err)
	}
	err = do(tx)
	if err == nil {
		err = j.there()
	}
	if err != nil {
		return j.fault("write to", errors.Join(err, tx.Rollback()))
	}
	return j.fault("write to", tx.Commit())
}

func (j *Journal) fault(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s journal %s: %w", verb, j.path, err)
}

// busy reports whether an error only says that somebody else is at it.
func busy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
