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
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// patience is how long a busy file is waited for.
const patience = 5 * time.Second

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
	path, err := files.Path(path)
	if err != nil {
		return nil, err
	}
	if err := sqlitefile.Create(path); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()), "synchronous(FULL)", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", sqlitefile.URI(path, q))
	if err != nil {
		return nil, files.Fault("open journal", path, err)
	}
	db.SetMaxOpenConns(1)
	j := &Journal{db: db, path: path}
	p := sqlitefile.NewPatience(ctx, path, patience)
	defer p.End()
	// to make a new file a WAL file, SQLite waits for nobody else who does
	if err := p.Retry(func() error { return j.prepare(ctx) }); err != nil {
		return nil, errors.Join(files.Fault("open journal", path, err), db.Close())
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

func (j *Journal) fault(doing string, err error) error {
	return files.Fault(doing+" journal", j.path, err)
}
