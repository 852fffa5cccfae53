package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/words"
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
)

// Catalog is fetched data in a SQLite file. It is safe for concurrent use, and several
// processes may share the file.
type Catalog struct {
	*Engine
	clock quota.Clock
	wait  time.Duration
	file  *sqlitefile.File
}

// Open opens the catalog in the file at path. It creates a missing file, but not its
// directory.
func Open(ctx context.Context, path string, o *Options) (*Catalog, error) {
	o = cmp.Or(o, &Options{})
	wait := cmp.Or(o.Wait, defaultWait)
	f, err := files.Open(ctx, path, wait, reindex)
	if err != nil {
		return nil, err
	}
	return opened(f, o.Clock, wait), nil
}

func opened(f *sqlitefile.File, clock quota.Clock, wait time.Duration) *Catalog {
	c := &Catalog{clock: cmp.Or[quota.Clock](clock, quota.SystemClock{}), wait: wait, file: f}
	c.Engine = NewEngine((*file)(c))
	return c
}

// Kept returns the copy of the file that Open made before it changed an older schema, or "".
// [Engine.Expire] deletes it with its oldest data.
func (c *Catalog) Kept() string { return c.file.Kept }

// Older returns the schema of the catalog in the file at path, if it is older than that of this
// package. Open would change it. If there is no catalog, the error is fs.ErrNotExist.
func Older(ctx context.Context, path string) (schema int64, older bool, err error) {
	return files.Older(ctx, path)
}

// reindex rebuilds the index if the file has another version of its words.
func reindex(s *sqlitefile.Session) error {
	made, err := s.One("words_find")
	if err != nil || made.Text(0) == words.Version {
		return err
	}
	if _, err := s.Exec("index_rebuild"); err != nil {
		return err
	}
	_, err = s.Exec("words_save", words.Version)
	return err
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
	return files.Inspect(ctx, path, defaultWait, func(f *sqlitefile.File) error {
		return read(opened(f, nil, defaultWait))
	})
}

// Close closes the file, after the operations that have begun.
func (c *Catalog) Close() error { return c.file.Close() }

// Ready returns an error if the catalog cannot be read. Searches do not keep it waiting.
func (c *Catalog) Ready(ctx context.Context) error {
	return c.file.Probe(ctx, func(s *sqlitefile.Session) error {
		_, err := s.One("SELECT id FROM runs ORDER BY id DESC LIMIT 1")
		return err
	})
}

// Version returns a number that changes with each commit to the file, by any process. What
// was read since it was returned is true until it changes. Only numbers of the same Catalog
// can be compared.
func (c *Catalog) Version(ctx context.Context) (int64, error) { return c.file.Version(ctx) }
