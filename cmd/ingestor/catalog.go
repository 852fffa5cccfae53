package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/plan"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// anyCatalog is a catalog: a file, or tables of PostgreSQL. Code that needs less of it takes less.
type anyCatalog interface {
	ingest.Catalog
	view.Catalog
	cursors
	charges
	patient
}

var (
	_ anyCatalog = (*catalog.Catalog)(nil)
	_ anyCatalog = (*pgcatalog.Catalog)(nil)
)

// openCatalog opens the catalog.
func (a *app) openCatalog(ctx context.Context, s *settings, done *closers) (anyCatalog, error) {
	if s.Database != "" {
		c, err := pgcatalog.Open(ctx, s.Database, &pgcatalog.Options{Clock: a.clock, Conns: s.Workers + spareConns})
		if err != nil {
			return nil, unopenedDatabase(err)
		}
		done.add(c.Close)
		return c, nil
	}
	if err := s.makeState(s.Catalog); err != nil {
		return nil, config(err)
	}
	c, err := catalog.Open(ctx, s.Catalog, &catalog.Options{Clock: a.clock})
	if err != nil {
		return nil, unopened(err, exitFailed)
	}
	done.add(c.Close)
	return c, nil
}

// spareConns are connections for everything but the work itself: the queue, the clock, and
// signs of life.
const spareConns = 6

// unopenedDatabase is a database that could not be opened. It is down, or the server refused
// us, which is the configuration's fault.
func unopenedDatabase(err error) error {
	if pgcatalog.Refused(err) {
		return config(err)
	}
	return &exit{exitDown, unanswered{err}}
}

// unread is an error of the catalog, which may be in a database.
func (s *settings) unread(err error) error {
	if _, coded := errors.AsType[*exit](err); coded || s.Database == "" {
		return err
	}
	return unopenedDatabase(err)
}

// rights returns an error if the database denies us a right that the catalog needs.
func (s *settings) rights(ctx context.Context) error {
	if s.Database == "" {
		return nil
	}
	return s.granted(pgcatalog.Missing(ctx, s.Database, pgcatalog.Schema, fleet.Schema))
}

// granted returns an error if rights are missing.
func (s *settings) granted(missing []string, err error) error {
	if err != nil {
		return unopenedDatabase(err)
	}
	if len(missing) == 0 {
		return nil
	}
	where := "the database"
	if at, err := url.Parse(s.Database); err == nil { // not with several hosts
		where = at.Scheme + "://" + at.Host + at.Path
	}
	return config(fmt.Errorf("the user of %s lacks rights\nAs the owner of the database, type in psql:\n  %s", where, strings.Join(missing, "\n  ")))
}

// noCatalog returns an error if there is no catalog yet. A database makes its tables when it
// is opened.
func (s *settings) noCatalog() error {
	if s.Database != "" {
		return nil
	}
	if _, err := os.Stat(s.Catalog); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no catalog at %s yet\nTo fetch data into it: ingestor run --once", s.Catalog)
	}
	return nil
}

// inspect calls read with the catalog, which it does not change. If there is none, the error
// is fs.ErrNotExist.
func (s *settings) inspect(ctx context.Context, read func(plan.Source) error) error {
	if s.Database == "" {
		return catalog.Inspect(ctx, s.Catalog, func(c *catalog.Catalog) error { return read(c) })
	}
	return pgcatalog.Inspect(ctx, s.Database, func(c *pgcatalog.Catalog) error { return read(c) })
}

// checkDatabase checks the setting. Its error does not repeat it, because it may hold a
// password.
func (s *settings) checkDatabase() error {
	if s.Database == "" || isDatabase(s.Database) {
		return nil
	}
	return errors.New("it is not the URL of a PostgreSQL database, as postgres://user@host/database")
}
