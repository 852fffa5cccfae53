package sqlitestore

import (
	"context"
	"errors"
	"fmt"
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
	Births storekit.BirthKeeper
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
	f := &file{clock: o.Clock, wait: o.Wait, known: make(map[quota.Pool]*entry), readers: make(chan *session, readers)}
	if f.clock == nil {
		f.clock = quota.SystemClock{}
	}
	if f.wait == 0 {
		f.wait = defaultWait
	}
	for range readers {
		f.readers <- nil // opened when it is needed
	}
	if err := f.open(ctx, path); err != nil {
		err = errors.Join(err, f.close())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	engine := &pagestore.Options{Combine: f.wait, Name: f.path}
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
	return errors.Join(failed, s.file.close())
}

// file is the [pagestore.Backend].
type file struct {
	path  string
	clock quota.Clock
	wait  time.Duration

	births  *storekit.Births // nil: the file is trusted
	writer  *session         // of the leader of the engine's queue
	readers chan *session    // nil: not connected yet
	files   sqlitefile.Identity

	// what the leader remembers between transactions
	known map[quota.Pool]*entry
	today day
	prune sweep
	tx    tx
}

func (f *file) open(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if f.path, err = checkPath(path); err != nil {
		return err
	}
	before, missing := sqlitefile.FileAt(f.path)
	if err := f.openWriter(ctx); err != nil {
		return f.fault("open", err)
	}
	if f.files, err = sqlitefile.Identify(f.path); err != nil {
		return err
	}
	if missing == nil {
		return moved(f.files.Was(before))
	}
	return nil
}

// openWriter opens the connection that writes and brings the schema up to date.
func (f *file) openWriter(ctx context.Context) error {
	if err := files.Look(ctx, f.path, steps); err != nil {
		return err
	}
	if err := sqlitefile.Create(f.path); err != nil {
		return err
	}
	p := sqlitefile.NewPatience(ctx, f.path, f.wait)
	defer p.End()
	err := p.Retry(func() (err error) { // a new file is locked to make it a WAL file
		f.writer, err = connect(ctx, f.path, sqlitefile.Write)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.Retry(func() error { return f.writer.do(begin) }); err != nil {
		return err
	}
	if err := migrate(ctx, f.writer.conn); err != nil {
		return errors.Join(err, f.writer.do(rollback))
	}
	return f.writer.do(commit)
}

func (f *file) close() error {
	var failed error
	if f.writer != nil {
		failed = f.writer.close()
		f.writer = nil
	}
	for range readers {
		r, open := <-f.readers
		if !open {
			return failed // it was closed before
		}
		if r != nil {
			failed = errors.Join(failed, r.close())
		}
	}
	close(f.readers)
	if failed != nil {
		return fmt.Errorf("close %s: %w", f.path, failed)
	}
	return nil
}

// Begin implements [pagestore.Backend].
func (f *file) Begin(ctx context.Context, waited time.Duration) (pagestore.Tx, error) {
	p := sqlitefile.NewPatience(ctx, f.path, f.wait-waited)
	defer p.End()
	if err := p.Retry(f.writer.begin); err != nil {
		return nil, f.fault("write to", err)
	}
	f.tx = tx{file: f, session: f.writer, now: f.clock.Now()}
	return &f.tx, nil
}

// View implements [pagestore.Backend]: it sees the file as it was when it began.
func (f *file) View(ctx context.Context) (pagestore.Tx, error) { return f.view(ctx) }

func (f *file) view(ctx context.Context) (*tx, error) {
	p := sqlitefile.NewPatience(ctx, f.path, f.wait)
	defer p.End()
	var r *session
	open := true
	select {
	case r, open = <-f.readers:
	case <-p.Wait():
		return nil, f.fault("read", p.Over(nil))
	}
	if !open {
		return nil, f.fault("read", pagestore.ErrClosed)
	}
	err := p.Retry(func() (err error) {
		if r == nil {
			if r, err = connect(ctx, f.path, sqlitefile.Read); err != nil {
				return err
			}
		}
		return r.look()
	})
	if err != nil {
		f.readers <- r
		if gone := moved(f.files.Check()); gone != nil {
			return nil, gone
		}
		return nil, f.fault("read", err)
	}
	return &tx{file: f, session: r, now: f.clock.Now()}, nil
}

// fault is an error of the file: what was done, and what to do about it.
func (f *file) fault(doing string, err error) error { return files.Fault(doing, f.path, err) }
