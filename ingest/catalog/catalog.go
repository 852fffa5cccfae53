package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// Options are the options of [Open]; nil is valid.
type Options struct {
	// Clock tells when data was fetched; nil is the system clock.
	Clock quota.Clock
	// Wait is the longest time to wait for a busy file; zero is 5s.
	Wait time.Duration
}

const defaultWait = 5 * time.Second

// Errors that a caller can act on.
var (
	// ErrNotFound says that the catalog does not hold the data.
	ErrNotFound = errors.New("not in the catalog")
	// ErrFenced says that another process has taken over. Stop writing.
	ErrFenced = errors.New("another process has taken over")
	// ErrOutOfStep says that a page is not the next page of its unit of work. Read the
	// cursor again.
	ErrOutOfStep = errors.New("not the next page")

	errClosed = errors.New("the catalog is closed")
)

// Catalog is fetched data in a SQLite file. It is safe for concurrent use, and several
// processes may share the file.
type Catalog struct {
	path  string
	clock quota.Clock
	wait  time.Duration

	turn   chan struct{} // taken by the user of writer
	writer *sqlitefile.Session
	read   *sql.DB // connections that cannot write
	file   sqlitefile.Identity
}

// Open opens the catalog in the file at path. It creates the file if there is none, but
// not its directory.
func Open(ctx context.Context, path string, o *Options) (*Catalog, error) {
	if o == nil {
		o = &Options{}
	}
	c := &Catalog{clock: o.Clock, wait: o.Wait, turn: make(chan struct{}, 1)}
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
	err = c.retry(ctx, func() (err error) { // a new file is locked while it becomes a WAL file
		c.writer, err = files.Connect(ctx, c.path, sqlitefile.Write, statements)
		return err
	})
	if err != nil {
		return c.fault("open", err)
	}
	if err := c.migrate(ctx, steps); err != nil {
		return c.fault("open", err)
	}
	if c.file, err = sqlitefile.Identify(c.path); err != nil {
		return err
	}
	connector, err := files.Connector(files.DSN(c.path, sqlitefile.Read))
	if err != nil {
		return c.fault("open", err)
	}
	c.read = sql.OpenDB(connector)
	c.read.SetMaxOpenConns(readers)
	c.read.SetMaxIdleConns(readers)
	return nil
}

// Inspect calls read with the catalog in the file at path, which Inspect does not change.
// It needs no permission to write, and creates no file. If another process opens the file
// meanwhile, read is called again. If there is no catalog the error is fs.ErrNotExist.
func Inspect(ctx context.Context, path string, read func(*Catalog) error) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		err = fs.ErrNotExist // the first run makes a catalog of it
	}
	if err != nil {
		return fmt.Errorf("open the catalog: %w", err)
	}
	c := &Catalog{clock: quota.SystemClock{}, wait: defaultWait}
	if c.path, err = files.Path(path); err != nil {
		return err
	}
	return sqlitefile.Untouched(c.path, func(db *sql.DB) error {
		if err := files.LookAt(ctx, db, steps); err != nil {
			return c.fault("open", err)
		}
		c.read = db
		return read(c)
	})
}

// Close closes the file, after the operations that have begun.
func (c *Catalog) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	var failed error
	if c.read != nil {
		failed = c.read.Close()
	}
	if c.writer != nil {
		failed = errors.Join(failed, c.writer.Close())
		c.writer = nil
	}
	if failed != nil {
		return fmt.Errorf("close %s: %w", c.path, failed)
	}
	return nil
}

// Path returns the path of the file.
func (c *Catalog) Path() string { return c.path }

// micros returns a time as the tables hold it; 0 is the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment is the inverse of micros.
func moment(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
