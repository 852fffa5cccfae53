package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pagestore"
	"github.com/headroom-quota/headroom/quota/storekit"
)

// Options are what [Open] can be told; nil is legal.
type Options struct {
	// Clock decides; nil is the machine's. Processes that share a file must
	// share a clock too.
	Clock quota.Clock
	// Families admits pages per key. False refuses them, as a write to disk for
	// every request of every client is seldom what is wanted: memstore is made
	// for that.
	Families bool
	// Wait is how long a busy file is waited for; zero is 2s. It is cut short for
	// callers with a deadline: half of what they have left is theirs, to do what is
	// to be done in an outage.
	Wait time.Duration
	// Births remembers the pools outside the file, so that a new file in its place,
	// or an older copy, is found out; nil trusts the file. It must not be deleted
	// with the file, and everybody who uses the file needs the same one.
	Births quota.Births
}

// defaultWait stands inside the bounds that package deadline lists.
const defaultWait = 2 * time.Second

// Store is a [quota.Store] in a file of SQLite. It is safe for concurrent use.
type Store struct {
	*pagestore.Store
	file *file
}

var _ quota.Store = (*Store)(nil)

// Open opens the ledger in the file at path, or makes a new one there; the
// directory must exist.
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f := &file{clock: o.Clock, wait: cmp.Or(o.Wait, defaultWait), known: make(map[quota.Pool]*entry)}
	if f.clock == nil {
		f.clock = quota.SystemClock{}
	}
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

// ready says whether the store can be asked.
func (s *Store) ready(ctx context.Context) error {
	if s.file == nil {
		return quota.BadInput("this store was not made by sqlitestore.Open")
	}
	return ctx.Err()
}

// Close closes the file. What is under way is finished first.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	s.Store.Close()
	var failed error
	if s.file.births != nil {
		failed = s.file.births.Keep(context.Background())
	}
	return errors.Join(failed, s.file.Close())
}

// file is the [pagestore.Backend]. Its writer belongs to the leader of the engine's queue.
type file struct {
	*sqlitefile.File
	clock  quota.Clock
	wait   time.Duration
	births *storekit.Births // nil: the file is trusted

	// what the leader remembers between transactions
	known map[quota.Pool]*entry
	today day
	prune sweep
	tx    tx
	page  []byte // scratch
}

// Begin implements [pagestore.Backend].
func (f *file) Begin(ctx context.Context, waited time.Duration) (pagestore.Tx, error) {
	if err := f.File.Begin(ctx, f.wait-waited); err != nil {
		return nil, f.Fault("write to", err)
	}
	f.tx = tx{file: f, Session: f.Writer, now: f.clock.Now()}
	return &f.tx, nil
}

// View implements [pagestore.Backend]: it sees the file as it was when it began.
func (f *file) View(ctx context.Context) (pagestore.Tx, error) { return f.view(ctx) }

func (f *file) view(ctx context.Context) (*tx, error) {
	s, err := f.File.View(ctx)
	if errors.Is(err, sqlitefile.ErrClosed) {
		err = f.Fault("read", pagestore.ErrClosed)
	}
	if err != nil {
		return nil, moved(err)
	}
	return &tx{file: f, Session: s, now: f.clock.Now()}, nil
}
