package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// Options are what [Open] can be told; nil is legal.
type Options struct {
	// Clock says when things were fetched; nil is the machine's.
	Clock quota.Clock
	// Wait is how long a busy file is waited for; zero is 5s.
	Wait time.Duration
}

const defaultWait = 5 * time.Second

// Errors that a caller can act on.
var (
	// ErrNotFound says that the catalog does not hold what was asked for.
	ErrNotFound = errors.New("not in the catalog")
	// ErrFenced says that another process has taken over: stop writing.
	ErrFenced = errors.New("another process has taken over")
	// ErrOutOfStep says that a page is not the next one of its unit of work: ask
	// for the cursor again.
	ErrOutOfStep = errors.New("not the next page")
)

// Catalog is what was fetched, in a file of SQLite. It is safe for concurrent use,
// by several processes too.
type Catalog struct {
	path  string
	clock quota.Clock
	wait  time.Duration

	write *sql.DB // one connection
	read  *sql.DB // those that cannot write

	stmts map[statement]*sql.Stmt // of the connection that writes
	file  sqlitefile.Identity
}

// Open opens the catalog in the file at path, or makes a new one there; the
// directory must exist.
func Open(ctx context.Context, path string, o *Options) (*Catalog, error) {
	if o == nil {
		o = &Options{}
	}
	c := &Catalog{clock: o.Clock, wait: o.Wait, stmts: map[statement]*sql.Stmt{}}
	if c.clock == nil {
		c.clock = quota.SystemClock{}
	}
	if c.wait == 0 {
		c.wait = defaultWait
	}
	if err := c.open(ctx, path); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Catalog) open(ctx context.Context, path string) error {
	var err error
	if c.path, err = files.Path(path); err != nil {
		return err
	}
	if err := files.Look(ctx, c.path, steps); err != nil {
		return c.fault("open", err)
	}
	if err := sqlitefile.Create(c.path); err != nil {
		return err
	}
	if c.write, err = connect(c.path, sqlitefile.Write, 1); err != nil {
		return c.fault("open", err)
	}
	if err := c.migrate(ctx, steps); err != nil {
		return c.fault("open", err)
	}
	if c.file, err = sqlitefile.Identify(c.path); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return c.fault("open", err)
	}
	if c.read, err = connect(c.path, sqlitefile.Read, readers); err != nil {
		return c.fault("open", err)
	}
	return nil
}

// Close closes the file. What is under way is finished first.
func (c *Catalog) Close() error {
	var failed error
	if c.read != nil {
		failed = c.read.Close()
	}
	if c.write != nil {
		for _, st := range c.stmts {
			failed = errors.Join(failed, st.Close())
		}
		failed = errors.Join(failed, c.write.Close())
	}
	if failed != nil {
		return fmt.Errorf("close %s: %w", c.path, failed)
	}
	return nil
}

// Path returns where the file is.
func (c *Catalog) Path() string { return c.path }

// now returns the catalog's time.
func (c *Catalog) now() time.Time { return c.clock.Now() }

// micros returns a time as the tables have it; 0 is none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is micros the other way round.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
