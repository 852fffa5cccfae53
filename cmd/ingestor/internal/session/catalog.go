package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/plan"
)

// AnyCatalog is a catalog: a file, or tables of PostgreSQL. Code that needs less of it takes less.
type AnyCatalog interface {
	ingest.Catalog
	view.Catalog
	Cursors
	charges
	Patient
}

var (
	_ AnyCatalog = (*catalog.Catalog)(nil)
	_ AnyCatalog = (*pgcatalog.Catalog)(nil)
)

// OpenCatalog opens the catalog.
func (a *Session) OpenCatalog(ctx context.Context, s *settings.Settings, done *console.Closers) (AnyCatalog, error) {
	if s.Database != "" {
		c, err := pgcatalog.Open(ctx, s.Database, &pgcatalog.Options{Clock: a.Clock, Conns: s.Workers + spareConns})
		if err != nil {
			return nil, UnopenedDatabase(err)
		}
		done.Add(c.Close)
		return c, nil
	}
	if err := s.MakeState(s.Catalog); err != nil {
		return nil, console.Config(err)
	}
	c, err := catalog.Open(ctx, s.Catalog, &catalog.Options{Clock: a.Clock})
	if err != nil {
		return nil, unopened(err, console.ExitFailed)
	}
	done.Add(c.Close)
	if kept := c.Kept(); kept != "" {
		a.Log.Info("the catalog has a newer schema now; a copy from before is kept until its oldest data has to go", "copy", kept)
	}
	return c, nil
}

// spareConns are connections for everything but the work itself: the queue, the clock, and
// signs of life.
const spareConns = 6

// UnopenedDatabase is a database that could not be opened. It is down, or the server refused
// us, which is the configuration's fault.
func UnopenedDatabase(err error) error {
	if pgcatalog.Refused(err) {
		return console.Config(err)
	}
	return &console.Exit{Code: console.ExitDown, Err: Unanswered{err}}
}

// unread is an error of the catalog, which may be in a database.
func unread(s *settings.Settings, err error) error {
	if _, coded := errors.AsType[*console.Exit](err); coded || s.Database == "" {
		return err
	}
	return UnopenedDatabase(err)
}

// Rights returns an error if the database denies us a right that the catalog needs.
func Rights(ctx context.Context, s *settings.Settings) error {
	if s.Database == "" {
		return nil
	}
	missing, err := pgcatalog.Missing(ctx, s.Database, pgcatalog.Schema, fleet.Schema)
	return Granted(s, missing, err)
}

// Granted returns an error if rights are missing.
func Granted(s *settings.Settings, missing []string, err error) error {
	if err != nil {
		return UnopenedDatabase(err)
	}
	if len(missing) == 0 {
		return nil
	}
	where := "the database"
	if at, err := url.Parse(s.Database); err == nil { // not with several hosts
		where = at.Scheme + "://" + at.Host + at.Path
	}
	return console.Config(fmt.Errorf("the user of %s lacks rights\nAs the owner of the database, type in psql:\n  %s", where, strings.Join(missing, "\n  ")))
}

// Inspect calls read with the catalog, which it does not change. If no catalog exists, the error
// is fs.ErrNotExist.
func Inspect(ctx context.Context, s *settings.Settings, read func(plan.Source) error) error {
	if s.Database == "" {
		return catalog.Inspect(ctx, s.Catalog, func(c *catalog.Catalog) error { return read(c) })
	}
	return pgcatalog.Inspect(ctx, s.Database, func(c *pgcatalog.Catalog) error { return read(c) })
}

// Patient is a catalog that can be checked for damage.
type Patient interface {
	Check(ctx context.Context) (problems []string, err error)
	Rebuild(ctx context.Context) error
	Path() string
}

// Unanswered is the error of a database that may answer later.
type Unanswered struct{ error }

func (u Unanswered) Unwrap() error { return u.error }

// OpenBoard returns the board of the fleet, or nil if the catalog is a file.
func OpenBoard(ctx context.Context, c AnyCatalog) (*fleet.Board, error) {
	shared, ok := c.(*pgcatalog.Catalog)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	board, err := fleet.NewBoard(shared)
	if err != nil {
		return nil, err
	}
	if err := board.Migrate(ctx); err != nil {
		return nil, UnopenedDatabase(err)
	}
	return board, nil
}

// Cursors reads the positions of jobs and forgets them.
type Cursors interface {
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Reset(ctx context.Context, job, work string) error
}
