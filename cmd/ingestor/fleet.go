package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/open"
)

// daemon runs jobs when they are due: alone, or as one process of a fleet.
type daemon interface {
	Run(ctx context.Context) error
	Reload(ctx context.Context, r *ingest.Runner, jobs []*ingest.Job, commit func() error) error
}

var (
	_ daemon = (*ingest.Daemon)(nil)
	_ daemon = (*fleet.Fleet)(nil)
)

// joinClock makes the runs of a fleet follow the clock of the database, and makes the tables
// of the fleet.
func (w *works) joinClock(ctx context.Context) error {
	c, ok := w.catalog.(*pgcatalog.Catalog)
	if !ok {
		return nil
	}
	if err := w.settings.granted(c.Missing(ctx, pgcatalog.Schema, fleet.Schema)); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	if err := fleet.Migrate(soon, c); err != nil {
		return unopenedDatabase(err)
	}
	clock, err := fleet.NewClock(ctx, c)
	if err != nil {
		return unopenedDatabase(err)
	}
	w.clock = clock
	return nil
}

// migrating is how long making the tables of the fleet may take. Another process may be at it.
const migrating = time.Minute

// joinFleet makes the process one of a fleet, if the catalog is in PostgreSQL.
func (a *app) joinFleet(w *works, jobs []*ingest.Job, done func(*ingest.Job, *ingest.Report, error), stale func()) (err error) {
	c, ok := w.catalog.(*pgcatalog.Catalog)
	if !ok {
		return nil
	}
	s := w.settings
	w.fleet, err = fleet.New(c, w.clock.(*fleet.Clock), w.runner, jobs, &fleet.Options{
		Log: a.log, Version: build().Version, Revision: func() int64 { return w.ledger.Book().Revision },
		Workers: s.Workers, CallTimeout: s.CallTimeout, PollOnly: s.PollOnly, Done: done, Stale: stale, Timing: timing(),
	})
	return err
}

// allowance returns how many units of a pool this machine may spend in an outage. If the
// server that is down has the catalog, too, nothing could be saved.
func (s *settings) allowance() int64 {
	if at, err := open.Parse(s.Ledger); s.Database != "" && err == nil && at.Beside(s.Database) {
		return -1
	}
	if part := quota.DefaultAllowance / int64(max(s.FleetSize, 1)); part > 0 {
		return part
	}
	return -1
}

// fleetTiming is set by the linker, and only in tests of a fleet: its times, in JSON.
var fleetTiming = "{}"

// timing returns the times of a fleet.
func timing() (t fleet.Timing) {
	if err := json.Unmarshal([]byte(fleetTiming), &t); err != nil {
		panic(err) // the linker set it
	}
	return t
}

// unanswered is the error of a database that may answer later.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

// openDaemon opens everything that a daemon needs. While the database of the catalog does not
// answer, it waits: a daemon that starts before its database, or during a restart of it, stays.
func (a *app) openDaemon(ctx context.Context, s *settings, done *closers) (*works, error) {
	for told := (time.Time{}); ; {
		var opened closers
		w, err := a.openWorks(ctx, s, &opened, nil)
		if err == nil {
			done.add(opened.close)
			return w, nil
		}
		err = errors.Join(err, opened.close())
		if _, waits := errors.AsType[unanswered](err); !waits || ctx.Err() != nil {
			return nil, err
		}
		if time.Since(told) > time.Minute {
			a.log.Warn("the database does not answer; trying again every few seconds", "error", err)
			told = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
	}
}
