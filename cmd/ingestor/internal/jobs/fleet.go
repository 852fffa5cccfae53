package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
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
	missing, err := c.Missing(ctx, pgcatalog.Schema, fleet.Schema)
	if err := session.Granted(w.settings, missing, err); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, migrating)
	defer cancel()
	if err := fleet.Migrate(soon, c); err != nil {
		return session.UnopenedDatabase(err)
	}
	clock, err := fleet.NewClock(ctx, c)
	if err != nil {
		return session.UnopenedDatabase(err)
	}
	w.clock = clock
	return nil
}

// migrating is how long making the tables of the fleet may take. Another process may be at it.
const migrating = time.Minute

// joinFleet makes the process one of a fleet, if the catalog is in PostgreSQL.
func joinFleet(a *session.Session, w *works, jobs []*ingest.Job, done func(*ingest.Job, *ingest.Report, error), stale func()) (err error) {
	c, ok := w.catalog.(*pgcatalog.Catalog)
	if !ok {
		return nil
	}
	s := w.settings
	w.fleet, err = fleet.New(c, w.clock.(*fleet.Clock), w.runner, jobs, &fleet.Options{
		Log: a.Log, Version: session.Build().Version, Revision: func() int64 { return w.ledger.Book().Revision },
		Workers: s.Workers, CallTimeout: s.CallTimeout, PollOnly: s.PollOnly, Done: done, Stale: stale, Timing: timing(),
	})
	return err
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

// openDaemon opens everything that a daemon needs. While the database of the catalog does not
// answer, it waits: a daemon that starts before its database, or during a restart of it, stays.
func openDaemon(ctx context.Context, a *session.Session, s *settings.Settings, done *console.Closers) (*works, error) {
	for told := (time.Time{}); ; {
		var opened console.Closers
		w, err := openWorks(ctx, a, s, &opened, nil)
		if err == nil {
			done.Add(opened.Close)
			return w, nil
		}
		err = errors.Join(err, opened.Close())
		if _, waits := errors.AsType[session.Unanswered](err); !waits || ctx.Err() != nil {
			return nil, err
		}
		if a.Now().Sub(told) > time.Minute {
			a.Log.Warn("the database does not answer; trying again every few seconds", "error", err)
			told = a.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second):
		}
	}
}

// verifying is how often a daemon looks for a ledger that did not answer when it started.
const verifying = 5 * time.Second

// verifyLater waits for a ledger that did not answer when the daemon started. If it is not the one
// of the fleet, the daemon ends: verifyLater cancels its context.
func verifyLater(ctx context.Context, a *session.Session, w *works, cancel context.CancelCauseFunc) {
	for {
		_, err := a.ChargeTo(ctx, w.settings, w.ledger, w.catalog, false)
		_, other := errors.AsType[*pgcatalog.OtherLedgerError](err)
		if other {
			cancel(err)
		}
		if other || err == nil || errors.Is(err, quota.ErrOutage) && !errors.Is(err, session.ErrUnverified) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(verifying):
		}
	}
}
