package fleet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestADaemonThatEndedIsGone: its last sign of life does not come after its end, even if the database is slow.
// Else it would be missed for a day.
func TestADaemonThatEndedIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	c := r.catalog()
	for _, statement := range []string{
		// It does not hear that it is to end, as a process that has not begun with it.
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(1); RETURN NEW; END $$",
		"CREATE TRIGGER slow BEFORE INSERT ON headroom_fleet.daemons FOR EACH ROW EXECUTE FUNCTION slow()",
	} {
		_, err := c.Pool().Exec(t.Context(), statement)
		r.must(err)
	}
	unhurried := quick
	unhurried.Timing.Beat = 10 * time.Second
	stop := r.background(r.fleet(c, unhurried).Run)
	beats := func() int {
		return r.number(c, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%INTO headroom_fleet.daemons%'")
	}
	r.eventually("a sign of life is under way", func() bool { return beats() == 1 })
	stop()
	r.eventually("it has been written", func() bool { return beats() == 0 })
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.daemons"); n != 0 {
		t.Errorf("%d daemons that ended are still there", n)
	}
}

// TestTheDatabaseRestarts stops the database while a daemon works, and starts another daemon
// before the database is back.
func TestTheDatabaseRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE", "FR", "GB"}, Pages: 4}})
	server := pgtest.Start(t, pgtest.Fast...)
	r.url = server.Database(t)
	r.slow = func() { time.Sleep(100 * time.Millisecond) }
	c := r.catalog()
	one, two := r.fleet(c, quick), r.fleet(r.catalog(), quick)
	r.background(one.Run)
	one.Tick(t.Context(), r.job("charts"), time.Now())
	r.eventually("some calls are made", func() bool { return r.sim.Counts().Total().Calls > 2 })
	server.Crash()
	r.background(two.Run)
	time.Sleep(time.Second)
	r.must(server.Restart())
	r.eventually("the run ends", func() bool {
		var n int
		err := c.Pool().QueryRow(t.Context(), "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'").Scan(&n)
		return err == nil && n == 1
	})
	if n := r.number(c, "SELECT sum(pages) FROM headroom_catalog.run_work"); n != 16 {
		t.Errorf("%d pages were saved, want 16", n)
	}
	if n := r.sim.Counts().Total().Calls; n > 16+2 {
		t.Errorf("%d calls for 16 pages on 2 workers", n)
	}
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.eventually("both daemons are there", func() bool {
		all, err := board.Daemons(t.Context())
		return err == nil && len(all) == 2
	})
}

// TestADaemonStops: open calls are finished and saved, and the rest is given back to others.
func TestADaemonStops(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE"}, Pages: 4}})
	var begun atomic.Int64
	some, stopping := make(chan struct{}), make(chan struct{})
	r.slow = func() {
		if n := begun.Add(1); n == 2 {
			close(some)
		} else if n > 2 {
			<-stopping // the daemon stops while calls are open
		}
		time.Sleep(300 * time.Millisecond)
	}
	c := r.catalog()
	f := r.fleet(c, fleet.Options{PollOnly: true}) // as behind PgBouncer
	stop := r.background(func(ctx context.Context) error {
		context.AfterFunc(ctx, func() { close(stopping) })
		return f.Run(ctx)
	})
	f.Tick(t.Context(), r.job("charts"), time.Now())
	<-some
	stop()
	calls := int(r.sim.Counts().Total().Calls)
	if n := r.number(c, "SELECT sum(pages) FROM headroom_catalog.run_work"); n != calls || n == 8 {
		t.Errorf("%d pages were saved of %d calls", n, calls)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job WHERE state = 'available'"); n != 2 {
		t.Errorf("%d units of work were given back", n)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.daemons"); n != 0 {
		t.Errorf("%d daemons", n)
	}
	next := r.fleet(r.catalog(), fleet.Options{})
	r.background(next.Run)
	r.eventually("another daemon ends the run", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == 1
	})
	if n := r.sim.Counts().Total().Calls; n != 8 {
		t.Errorf("%d calls for 8 pages", n)
	}
}

// TestOnceIsInterrupted defers what it leaves, and the next one resumes it.
func TestOnceIsInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE", "FR"}, Pages: 4}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var begun atomic.Int64
	r.slow = func() {
		if begun.Add(1) == 2 {
			cancel() // in the middle of a call
		}
	}
	c := r.catalog()
	f := r.fleet(c, fleet.Options{Workers: 1})
	rep, err := f.Once(ctx, r.job("charts"), ingest.Occasion{})
	r.must(err)
	if rep.State != "deferred" || len(rep.Work) != 3 || rep.ResumeAt.IsZero() {
		t.Errorf("%s until %s: %v", rep.State, rep.ResumeAt, states(rep))
	}
	rep, err = f.Once(t.Context(), r.job("charts"), ingest.Occasion{Deferred: true})
	r.must(err)
	if rep.State != "done" || len(rep.Work) != 3 {
		t.Errorf("%s: %v", rep.State, states(rep))
	}
	if n := r.sim.Counts().Total().Calls; n != 12 {
		t.Errorf("%d calls for 12 pages", n)
	}
}

// TestOnceTakesAnOpenRun whose process was killed.
func TestOnceTakesAnOpenRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	f := r.fleet(r.catalog(), fleet.Options{})
	due := time.Now().Truncate(time.Second)
	r.must(f.Insert(t.Context(), r.job("charts"), due))
	rep, err := f.Once(t.Context(), r.job("charts"), ingest.Occasion{Scheduled: due})
	r.must(err)
	if rep.State != "done" || len(rep.Work) != 1 {
		t.Errorf("%s: %v", rep.State, states(rep))
	}
	if _, err = f.Once(t.Context(), r.job("charts"), ingest.Occasion{Scheduled: due}); !errors.Is(err, ingest.ErrHeld) {
		t.Errorf("a run that has ended: %v", err)
	}
}

// TestARunWithoutWork ends, though no worker has anything to do.
func TestARunWithoutWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	f := r.fleet(r.catalog(), fleet.Options{})
	due := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, want := range []catalog.State{catalog.Done, catalog.Skipped} {
		rep, err := f.Once(t.Context(), r.job("charts"), ingest.Occasion{Scheduled: due.Add(time.Duration(i) * time.Minute)})
		r.must(err)
		if rep.State != want || len(rep.Work) != 1-i {
			t.Errorf("%s: %v", rep.State, states(rep))
		}
	}
}

// TestWorkOfWhichNobodyToldIsFound: the notice of work was lost, and River itself would ask after an hour.
func TestWorkOfWhichNobodyToldIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	o := quick
	o.Timing.Poll = time.Hour
	f := r.fleet(c, o)
	r.background(f.Run)
	r.must(f.Insert(t.Context(), r.job("charts"), time.Now().Add(time.Hour).Truncate(time.Microsecond)))
	r.eventually("the work waits", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.river_job WHERE state = 'scheduled'") == 1
	})
	_, err := c.Pool().Exec(t.Context(), "UPDATE headroom_fleet.river_job SET state = 'available', scheduled_at = clock_timestamp() - interval '2 s' WHERE state = 'scheduled'")
	r.must(err)
	r.eventually("the work is done", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'") == 1
	})
}
