package sqlitestore

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlfiles"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Options are the options of [Open]; nil is valid.
type Options struct {
	// Clock is the clock of all decisions; nil is the system clock. Processes that share
	// a file must also share a clock.
	Clock quota.Clock
	// Families allows pages per key. They write to the disk for every request of every
	// client. Package memstore is the better place for them.
	Families bool
	// Wait is the longest time to wait for a busy file; zero is 2s. A caller whose own deadline
	// comes first gets the error of its context. That says nothing about the file, so it is no outage.
	Wait time.Duration
	// Births remembers the pools outside the file. It detects a new file or an older copy
	// in its place; nil trusts the file. Do not delete it with the file. All processes
	// that use the file need the same Births.
	Births storekit.BirthKeeper
}

// defaultWait is the default of Options.Wait, within the bounds of package deadline.
const defaultWait = 2 * time.Second

// Store is a [quota.Store] in a SQLite file. It is safe for concurrent use.
type Store struct {
	*pagestore.Store
	file *file
}

var _ quota.Store = (*Store)(nil)

// Open opens the ledger in the file at path. It creates a missing file, but not its
// directory.
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	o = cmp.Or(o, &Options{})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &file{clock: cmp.Or[quota.Clock](o.Clock, quota.SystemClock{}), wait: cmp.Or(o.Wait, defaultWait), known: make(map[quota.Pool]*entry), sums: newSums()}
	var err error
	f.File, err = files.Open(ctx, path, f.wait, nil)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, sqlitefile.ErrNoName):
		return nil, quota.BadInput("%v; a ledger that ends with the process is memstore", err)
	default:
		return nil, moved(err)
	}
	engine := &pagestore.Options{Combine: f.wait, Name: f.Path}
	if !o.Families {
		engine.NoFamilies = "this ledger in SQLite keeps no families; keep them in memory, or open it with Families"
	}
	s := &Store{file: f}
	if o.Births != nil {
		f.births = storekit.NewBirths(s, o.Births)
		engine.Births = f.births
	}
	s.Store = pagestore.New(f, engine)
	return s, nil
}

// Kept returns the copy of the file that Open made before it changed an older schema, or "". The
// next change of the schema leaves it.
func (s *Store) Kept() string {
	if s == nil || s.file == nil || s.file.File == nil {
		return ""
	}
	return s.file.Kept
}

// Older returns the schema of the ledger in the file at path, if it is older than that of this
// package. Open would change it. If there is no ledger, the error is fs.ErrNotExist.
func Older(ctx context.Context, path string) (schema int64, older bool, err error) {
	return files.Older(ctx, path)
}

// Close closes the file, after the transaction under way. Calls that wait for their turn fail, and
// later ones.
func (s *Store) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	s.Store.Close()
	var failed error
	if s.file.births != nil {
		failed = s.file.births.Keep(context.Background())
	}
	return errors.Join(failed, s.file.Close())
}

var errNotMade = quota.BadInput("this store was not made by sqlitestore.Open")

// file is the [pagestore.Backend]. The leader of the engine's queue owns its writer.
type file struct {
	*sqlitefile.File
	clock  quota.Clock
	wait   time.Duration
	births *storekit.Births // nil trusts the file
	sums   *sums

	// The leader keeps these between transactions.
	known map[quota.Pool]*entry
	today storekit.Today
	prune sweep
	tx    tx
	page  []byte // scratch

	// The transaction writes pages at its end, so that callers who share it do not write
	// one page several times.
	changed []*entry
	begun   int64 // transactions
}

func (f *file) Begin(ctx context.Context, waited time.Duration) (pagestore.Tx, error) {
	if err := f.File.Begin(ctx, f.wait-waited); err != nil {
		return nil, f.Fault("write to", err)
	}
	f.changed, f.begun = f.changed[:0], f.begun+1
	f.tx = tx{file: f, Session: f.Writer, now: f.clock.Now()}
	return &f.tx, nil
}

// View implements [pagestore.Backend]. It sees the file as it was when the view began.
func (f *file) View(ctx context.Context) (pagestore.Tx, error) { return f.view(ctx) }

func (f *file) view(ctx context.Context) (*tx, error) {
	if f == nil {
		return nil, errNotMade
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := f.File.View(ctx)
	if errors.Is(err, sqlitefile.ErrClosed) {
		err = f.Fault("read", pagestore.ErrClosed)
	}
	if err != nil {
		return nil, moved(err)
	}
	return &tx{file: f, Session: s, now: f.clock.Now()}, nil
}

//go:embed schema/*.sql
var schemaFiles embed.FS

//go:embed sql/*.sql
var sqlFiles embed.FS

var files = &sqlitefile.Kind{
	Name:        "ledger",
	Application: 1215456356, // see 0001_ledger.sql
	Spared:      "what is granted",
	Full:        "make room: nothing that was granted is lost",
	Damaged:     "stop its users, see what PRAGMA integrity_check says, restore a backup and adjust what was spent since",
	Steps:       sqlfiles.Steps(schemaFiles),
	Statements:  sqlfiles.Statements(sqlFiles),
}

// movedError says that the ledger was taken away under a running process. It
// matches [quota.ErrOutage].
type movedError struct{ err *sqlitefile.MovedError }

func (e *movedError) Error() string {
	return "what is spent is unknown: the ledger's file " + e.err.Error()
}

func (e *movedError) Is(target error) bool { return target == quota.ErrOutage }

func (e *movedError) Unwrap() error { return e.err }

// moved turns the error of a ledger that was taken away into an outage.
func moved(err error) error {
	if gone, ok := errors.AsType[*sqlitefile.MovedError](err); ok {
		return &movedError{gone}
	}
	return err
}
