// Package journal is a small SQLite file that the processes of one machine share. It keeps
// what must survive the loss of a ledger:
//
//   - Calls that were admitted in an outage, written before they are sent, and blocks.
//     They are put into the ledger when it is back. Until then they count as the used
//     allowance, so a process that crashes and restarts gets no new one.
//   - The births of the pages in use. They show whether a ledger has lost data or was
//     replaced by an older copy.
//
// Several ledgers can share a journal. Each entry belongs to the address of a ledger, and
// to the identity that the ledger had there. A call that was admitted for one ledger is
// never charged to another.
//
// An entry keeps the call as it was admitted, and the units that it was settled to. The
// ledger gets both, one after the other, so a retry after a lost reply sends the same. The
// receipt under the id of the call makes the retry safe. Receipts live for an hour. If a
// process crashes between charging a call and removing its entry, and no process replays
// within the hour, that call counts twice.
package journal

import (
	"context"
	"database/sql/driver"
	"embed"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// files are those that this package keeps.
var files = &sqlitefile.Kind{
	Name:        "journal",
	Application: 1215458666, // see 0001_journal.sql
	Spared:      "an admitted call",
	Full:        "make room: until then no call is admitted in an outage",
	Damaged:     "stop its users, move it away, and adjust what it had not yet told the ledger",
	Steps:       sqlfiles.Steps(schemaFiles),
}

// These are the timeouts for a busy file: to open it, and to write to it. The second adds
// to the time that a ledger took to fail, and both must fit into the callers' time: see
// package deadline.
const (
	opening  = 5 * time.Second
	patience = time.Second
)

// Journal is the [quota.Journal] and the [storekit.BirthKeeper] of one ledger. It is safe
// for concurrent use, also by several processes.
type Journal struct {
	file   *sqlitefile.File
	ledger string
}

var (
	_ quota.Journal        = (*Journal)(nil)
	_ storekit.BirthKeeper = (*Journal)(nil)
)

// Open opens the journal at path for a ledger. It makes a missing file, in an existing
// folder on a local disk. The ledger is named by its address, which must have the same
// form each time and no password. The functions Canonical of sqlitestore and redisstore
// return such a form.
func Open(ctx context.Context, path, ledger string) (*Journal, error) {
	if ledger == "" {
		return nil, quota.BadInput("open journal %s: say for which ledger, by its address", path)
	}
	file, err := files.Open(ctx, path, opening, nil)
	if err != nil {
		return nil, err
	}
	return &Journal{file, ledger}, nil
}

// Older returns the schema of the journal at path, if it is older than that of this package. Open
// would change it. If there is no journal, the error is fs.ErrNotExist.
func Older(ctx context.Context, path string) (schema int64, older bool, err error) {
	return files.Older(ctx, path)
}

// Close closes the file.
func (j *Journal) Close() error {
	if !j.made() {
		return errNotMade
	}
	return j.file.Close()
}

// errNotMade is of a nil or zero journal.
var errNotMade = quota.BadInput("this journal was not made by journal.Open")

func (j *Journal) made() bool { return j != nil && j.file != nil }

// Path is where the file is.
func (j *Journal) Path() string {
	if !j.made() {
		return ""
	}
	return j.file.Path
}

// Kept returns the copy of the file that Open made before it changed an older schema, or "".
func (j *Journal) Kept() string {
	if !j.made() {
		return ""
	}
	return j.file.Kept
}

// Ledger is the address of the ledger that the journal was opened for.
func (j *Journal) Ledger() string {
	if !j.made() {
		return ""
	}
	return j.ledger
}

// write runs a transaction: all of it or nothing.
func (j *Journal) write(ctx context.Context, do func(*sqlitefile.Session) error) error {
	if !j.made() {
		return errNotMade
	}
	return j.fault("write to", j.file.Write(ctx, patience, do))
}

// read calls row for each row of a query.
func (j *Journal) read(ctx context.Context, row func(sqlitefile.Row) error, query string, args ...driver.Value) error {
	if !j.made() {
		return errNotMade
	}
	return j.file.Read(ctx, func(s *sqlitefile.Session) error { return s.Rows(query, args, row) })
}

func (j *Journal) fault(doing string, err error) error {
	return j.file.Fault(doing+" journal", err)
}
