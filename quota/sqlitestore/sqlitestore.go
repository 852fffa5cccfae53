package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
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
	// Wait is how long a busy file is waited for; zero is 5s.
	Wait time.Duration
	// Births remembers the pools outside the file, so that a new file in its place,
	// or an older copy, is found out; nil trusts the file. It must not be deleted
	// with the file, and everybody who uses the file needs the same one.
	Births quota.Births
}

const defaultWait = 5 * time.Second

// Store is a [quota.Store] in a file of SQLite. It is safe for concurrent use.
type Store struct {
	path     string
	clock    quota.Clock
	families bool
	wait     time.Duration

	write *writer
	read  *sql.DB
	file  sqlitefile.Identity

	births *storekit.Births // nil: the file is trusted

	// what the holder of the writer remembers between transactions
	known map[quota.Pool]*birth
	today day
	saved []*pool // by the transaction under way
	prune sweep
}

var _ quota.Store = (*Store)(nil)

// Open opens the ledger in the file at path, or makes a new one there; the
// directory must exist.
func Open(ctx context.Context, path string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{clock: o.Clock, families: o.Families, wait: o.Wait, known: make(map[quota.Pool]*birth)}
	if s.clock == nil {
		s.clock = quota.SystemClock{}
	}
	if s.wait == 0 {
		s.wait = defaultWait
	}
	if o.Births != nil {
		s.births = storekit.NewBirths(s, o.Births)
	}
	if err := s.open(ctx, path); err != nil {
		err = errors.Join(err, s.Close())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if s.path, err = checkPath(path); err != nil {
		return err
	}
	before, missing := sqlitefile.FileAt(s.path)
	if s.write, err = s.openWriter(ctx); err != nil {
		return err
	}
	if s.file, err = sqlitefile.Identify(s.path); err != nil {
		return err
	}
	if missing == nil {
		if err := moved(s.file.Was(before)); err != nil {
			return err
		}
	}
	s.read, err = s.openReaders()
	return err
}

// Close closes the file. What is under way is finished first.
func (s *Store) Close() error {
	var failed error
	if s.births != nil {
		failed = s.births.Keep(context.Background())
	}
	if s.read != nil {
		failed = errors.Join(failed, s.read.Close())
	}
	if s.write != nil {
		failed = errors.Join(failed, s.write.close())
	}
	if failed != nil {
		return fmt.Errorf("close %s: %w", s.path, failed)
	}
	return nil
}

// checkFamily refuses families unless they were asked for.
func (s *Store) checkFamily(p quota.Pool) error {
	if p.Key != "" && !s.families {
		return quota.BadInput("%s: this ledger in SQLite keeps no families; keep them in memory, or open it with Families", p)
	}
	return nil
}

// day is the day of a pool's calendar that the last charge fell in, which is
// mostly the next one's.
type day struct {
	start, end window.Instant
	zone       *time.Location
	name       string
}

func (d *day) of(at window.Instant, zone *time.Location) string {
	if d.name == "" || at < d.start || at >= d.end || zone != d.zone {
		start, end := quota.DayOf(at, zone)
		*d = day{start, end, zone, quota.DayName(at, zone)}
	}
	return d.name
}
