// Package journal is a small SQLite file that the processes of one machine share. It
// holds what must not be lost when a ledger is: calls that were admitted in an outage,
// written before they are sent, the blocks that were met meanwhile, and when the pages
// in use were born. Calls and blocks are put into the ledger when it is back. Until
// then they are the used part of the allowance, so a process that crashes and starts
// again gets no fresh one. The births show whether a ledger has lost its memory or was
// replaced by an older copy.
//
// Several ledgers can share a journal. Everything in it belongs to one address of a
// ledger, and to the identity that the ledger had there. A call that was admitted for
// one ledger is never charged to another one.
//
// A call stands there as it was admitted, and beside it what it was settled to. The
// ledger is told of both, one after the other, so that a retry after a lost answer
// tells it the same. The receipt under the id of the call makes such a retry harmless.
// It lives for an hour: if a process dies between charging a call and crossing it out,
// and nobody replays for an hour after, that one call counts twice.
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
	"github.com/headroom-quota/headroom/quota/storekit"
)

// How long a busy file is waited for: to open it, and to write to it. The second is
// added to the time that a ledger took to fail, and both must fit into the time that
// callers have: see package deadline. A statement does not hear its context while SQLite
// itself waits, so that is short.
const (
	opening     = 5 * time.Second
	patience    = time.Second
	busyTimeout = 100 * time.Millisecond
)

// Journal is the [quota.Journal] and the [storekit.BirthKeeper] of one ledger. It is safe for
// concurrent use, by several processes too.
type Journal struct {
	db     *sql.DB
	path   string
	ledger string
	file   os.FileInfo // as it was opened
}

var (
	_ quota.Journal        = (*Journal)(nil)
	_ storekit.BirthKeeper = (*Journal)(nil)
)

// Open opens the journal at path for a ledger, and makes the file if there is none. Its
// folder must be there, on a local disk. The ledger is named by its address, which must
// be written the same way each time and hold no password: sqlitestore and redisstore
// have a function Canonical for that.
func Open(ctx context.Context, path, ledger string) (*Journal, error) {
	path, err := files.Path(path)
	if err != nil {
		return nil, err
	}
	if ledger == "" {
		return nil, quota.BadInput("open journal %s: say for which ledger, by its address", path)
	}
	if err := sqlitefile.Create(path); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(FULL)", "foreign_keys(1)"}}
	db, err := sql.Open("sqlite", sqlitefile.URI(path, q))
	if err != nil {
		return nil, files.Fault("open journal", path, err)
	}
	db.SetMaxOpenConns(1)
	j := &Journal{db: db, path: path, ledger: ledger}
	p := sqlitefile.NewPatience(ctx, path, opening)
	defer p.End()
	// to make a new file a WAL file, SQLite waits for nobody else who does
	if err := p.Retry(func() error { return j.prepare(ctx) }); err != nil {
		return nil, errors.Join(files.Fault("open journal", path, err), db.Close())
	}
	return j, nil
}

// Close closes the file.
func (j *Journal) Close() error {
	if j.db == nil {
		return errNotMade
	}
	return j.db.Close()
}

// errNotMade is of a zero journal.
var errNotMade = quota.BadInput("this journal was not made by journal.Open")

// Path is where the file is.
func (j *Journal) Path() string { return j.path }

// Ledger is the address of the ledger that the journal was opened for.
func (j *Journal) Ledger() string { return j.ledger }

// write runs a transaction: all of it or nothing.
func (j *Journal) write(ctx context.Context, do func(*sql.Tx) error) error {
	if j.db == nil {
		return errNotMade
	}
	var tx *sql.Tx
	p := sqlitefile.NewPatience(ctx, j.path, patience)
	defer p.End()
	err := p.Retry(func() (err error) {
		tx, err = j.db.BeginTx(ctx, nil)
		return err
	})
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
