package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

var units = quota.Pool{Upstream: "youtube", Name: "units"}

// TestARefusalSnoozes blocks the pool: the work gives its worker back until the block ends,
// and goes on when it is lifted.
func TestARefusalSnoozes(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE"}, Pages: 1}})
	c := r.catalog()
	r.must(r.ledger.BlockFor(t.Context(), units, time.Hour, "a test"))
	f := r.fleet(c, fleet.Options{Timing: fleet.Timing{Mend: 200 * time.Millisecond}})
	r.background(f.Run)
	f.Tick(t.Context(), r.job("charts"), time.Now())
	board, err := fleet.NewBoard(c)
	r.must(err)
	count := func(state fleet.UnitState) (n int) {
		all, err := board.Units(t.Context())
		r.must(err)
		for _, u := range all {
			if u.State == state {
				n++
			}
			if state == fleet.UnitDeferred && u.State == state && (u.NextAt.Before(time.Now().Add(50*time.Minute)) || !strings.HasSuffix(u.BlockedOn, "youtube/units") || u.Why == "" || u.HeldBy != "" || u.DeferredSince.IsZero()) {
				n--
			}
		}
		return n
	}
	r.eventually("all work is deferred", func() bool { return count(fleet.UnitDeferred) == 2 })
	r.eventually("the run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL AND report->>'state' = 'deferred'") == 1
	})
	if n := r.sim.Counts().Total().Calls; n != 0 {
		t.Errorf("%d calls", n)
	}
	r.must(r.ledger.Admin().Unblock(t.Context(), units))
	r.eventually("all work is done", func() bool { return count(fleet.UnitIdle) == 2 })
	if n := r.sim.Counts().Total().Calls; n != 2 {
		t.Errorf("%d calls for 2 pages", n)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.works WHERE deferred_since IS NOT NULL"); n != 0 {
		t.Errorf("%d units of work are deferred, though they were done", n)
	}
	r.eventually("the run that resumed the work ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE deferred AND report->>'state' = 'done'") == 1
	})
}

// slowCursors is a catalog in which something happens after the cursors of a job were read.
type slowCursors struct {
	*pgcatalog.Catalog
	then func()
}

func (c *slowCursors) Cursors(ctx context.Context, job string) ([]catalog.Cursor, error) {
	all, err := c.Catalog.Cursors(ctx, job)
	c.then()
	return all, err
}

// ends lets a process do a run for a time until it ends in a state.
func (r *rig) ends(c *pgcatalog.Catalog, at time.Time, state string) {
	r.t.Helper()
	f := r.fleet(c, fleet.Options{Timing: fleet.Timing{Mend: time.Hour}})
	f.Tick(r.t.Context(), r.job("charts"), at)
	stop := r.background(f.Run)
	defer stop()
	r.eventually("the run is "+state, func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL AND report->>'state' = $1", state) == 1
	})
}

// deferred lets a run defer its work, which could go on now.
func (r *rig) deferred(c *pgcatalog.Catalog, at time.Time) {
	r.t.Helper()
	r.must(r.ledger.BlockFor(r.t.Context(), units, time.Hour, "a test"))
	r.ends(c, at, "deferred")
	r.must(r.ledger.Admin().Unblock(r.t.Context(), units))
}

// TestDeferredWorkThatWasDone lets a process read which work of a job was deferred, and stand still before it inserts a run of
// that, while the run of the next time does the work. No page is paid for again.
func TestDeferredWorkThatWasDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE"}, Pages: 1}})
	c := r.catalog()
	r.deferred(c, time.Now())
	clock, err := fleet.NewClock(t.Context(), c)
	r.must(err)
	meanwhile := sync.OnceFunc(func() { r.ends(c, time.Now(), "done") })
	late, err := fleet.New(c, clock, r.runner(&slowCursors{c, meanwhile}, clock, nil), r.config.List(), &fleet.Options{Log: r.log()})
	r.must(err)
	r.must(late.Resume(t.Context(), r.job("charts")))
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE deferred"); n != 0 {
		t.Errorf("%d runs resume work that is done", n)
	}
	if n := r.sim.Counts().Total().Calls; n != 2 {
		t.Errorf("%d calls for 2 pages", n)
	}
}

// TestAPassOfTwoRuns lets a run of deferred work save the first page of a pass. Then the run of the next time, which is older but
// gets its work late, ends the pass. The first run must not begin another one.
func TestAPassOfTwoRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 2, MaxLateness: 9000 * time.Hour}})
	c := r.catalog()
	r.deferred(c, time.Now().Add(-time.Minute))

	// A process that is gone has inserted the run of the next time, and not yet added its work.
	_, err := c.Pool().Exec(t.Context(), `INSERT INTO headroom_fleet.runs (account, job, scheduled_at, deferred, created_by, works, adding_by, adding_at)
		VALUES ('default', 'charts', clock_timestamp(), false, 'gone', 1, 'gone', clock_timestamp())`)
	r.must(err)
	f := r.fleet(c, fleet.Options{Workers: 1, Timing: fleet.Timing{Mend: time.Hour, Slice: time.Second}})
	adopter := r.fleet(c, fleet.Options{Workers: 1, Timing: fleet.Timing{Mend: 100 * time.Millisecond}})
	r.must(f.Resume(t.Context(), r.job("charts")))
	r.slow = sync.OnceFunc(func() { // during the call for the first page
		r.background(adopter.Run)
		r.eventually("the run of the next time has its work", func() bool {
			return r.number(c, `SELECT count(*) FROM headroom_fleet.units u JOIN headroom_fleet.runs r ON r.id = u.run
				WHERE r.scheduled_at IS NOT NULL AND u.ended_at IS NULL`) == 1
		})
		time.Sleep(1200 * time.Millisecond) // longer than a slice
	})
	r.background(f.Run)
	r.eventually("all runs end", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL") == 0
	})
	if n := r.sim.Counts().Total().Calls; n != 2 {
		t.Errorf("%d calls for a pass of 2 pages", n)
	}
}

// TestAClockThatWasAhead completes work in the future, as a database does whose clock is ahead and is set right since. The
// next tick does the work all the same.
func TestAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"days": 48 * time.Hour, "minutes": 30 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 * * *", Regions: []string{"US"}, Pages: 1, MaxLateness: 100 * time.Hour, Misfire: ingest.Skip}})
			c := r.catalog()
			f := r.fleet(c, fleet.Options{Timing: fleet.Timing{Mend: time.Hour}})
			r.background(f.Run)
			for n, at := range []time.Time{time.Now().Add(-50 * time.Hour), time.Now().Add(-25 * time.Hour)} {
				f.Tick(t.Context(), r.job("charts"), at)
				r.eventually("the run ends", func() bool {
					return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL") == n+1
				})
				_, err := c.Pool().Exec(t.Context(), "UPDATE headroom_catalog.cursors SET completed_at = completed_at + $1", ahead.Microseconds())
				r.must(err)
			}
			if n := r.sim.Counts().Total().Calls; n != 2 {
				t.Errorf("%d calls for 2 ticks", n)
			}
		})
	}
}

// TestRetry lets deferred work go on at once, and a pause stops it.
func TestRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.must(r.ledger.BlockFor(t.Context(), units, time.Hour, "a test"))
	f := r.fleet(c, fleet.Options{Timing: fleet.Timing{Mend: time.Hour}})
	r.background(f.Run)
	f.Tick(t.Context(), r.job("charts"), time.Now())
	state := func(want fleet.UnitState) func() bool {
		return func() bool {
			all, err := board.Units(t.Context())
			r.must(err)
			return len(all) == 1 && all[0].State == want
		}
	}
	r.eventually("the work is deferred", state(fleet.UnitDeferred))
	r.must(r.ledger.Admin().Unblock(t.Context(), units))
	r.must(board.Pause(t.Context(), "", "charts"))
	if n, err := board.Retry(t.Context(), "", "charts"); n != 1 || err != nil {
		t.Errorf("%d retried: %v", n, err)
	}
	time.Sleep(1500 * time.Millisecond) // longer than River polls
	if !state(fleet.UnitQueued)() {
		t.Error("the work of a paused job went on")
	}
	r.must(board.Resume(t.Context(), "", "charts"))
	r.eventually("the work is done", state(fleet.UnitIdle))
	daemons, err := board.Daemons(t.Context())
	r.must(err)
	if len(daemons) != 1 || daemons[0].ID != f.ID() || daemons[0].State != fleet.Running || !daemons[0].Alive() || len(daemons[0].Jobs) != 2 {
		t.Errorf("the daemons are %+v", daemons)
	}
}

// TestMaxUnits bounds a run on several workers: each may exceed it by a call.
func TestMaxUnits(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE", "FR", "GB", "IN", "BR"}, Pages: 4, MaxUnits: 7}})
	c := r.catalog()
	one, two := r.fleet(c, fleet.Options{Workers: 2}), r.fleet(r.catalog(), fleet.Options{Workers: 2})
	r.background(one.Run)
	r.background(two.Run)
	one.Tick(t.Context(), r.job("charts"), time.Now())
	r.eventually("the run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL AND report->>'state' = 'deferred'") == 1
	})
	spent, counted := int(r.sim.Counts().Total().Units), r.number(c, "SELECT units FROM headroom_fleet.runs")
	if spent < 7 || spent > 7+3 || counted != spent {
		t.Errorf("spent %d units, counted %d, with max_units 7 and 4 workers", spent, counted)
	}
}

// TestAnOldPriceBook: a daemon whose price book is too old does no work until a reload, and
// shows why.
func TestAnOldPriceBook(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	store := memstore.New(nil)
	r.ledger = r.newLedger(store, 2, 100)
	newer := r.newLedger(store, 3, 200)
	_, err := newer.Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "videos.list"})
	r.must(err)
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	r.background(f.Run)
	f.Tick(t.Context(), r.job("charts"), time.Now())
	r.eventually("the daemon shows it", func() bool { return strings.Contains(f.Status(), "price book") })
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.eventually("the work is given back", func() bool {
		all, err := board.Units(t.Context())
		r.must(err)
		return len(all) == 1 && all[0].State == fleet.UnitQueued
	})
	snoozes := "SELECT coalesce((metadata->>'snoozes')::int, 0) FROM headroom_fleet.river_job"
	before := r.number(c, snoozes)
	time.Sleep(1500 * time.Millisecond) // longer than River polls
	if n := r.number(c, snoozes); n != before {
		t.Errorf("%d snoozes, and then %d", before, n)
	}
	_, err = c.Pool().Exec(t.Context(), "INSERT INTO headroom_catalog.channels VALUES ('UCold', 1, 1, '', '', '', '', '')")
	r.must(err)
	f.Tick(t.Context(), r.job("retention"), time.Now())
	if n := r.number(c, "SELECT count(*) FROM headroom_catalog.channels"); n != 0 {
		t.Error("data that is too old was not deleted")
	}
	r.ledger = newer
	clock, err := fleet.NewClock(t.Context(), c)
	r.must(err)
	r.must(f.Reload(t.Context(), r.runner(c, clock, nil), r.config.List(), func() error { return nil }))
	r.eventually("the run is done", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE job = 'charts' AND report->>'state' = 'done'") == 1
	})
}

// silent is a ledger that does not answer.
type silent struct {
	quota.Store
	once  sync.Once
	asked chan struct{} // closed when it is asked first
}

func (s *silent) Reserve(context.Context, quota.Request) (quota.Verdict, error) {
	s.once.Do(func() { close(s.asked) })
	return quota.Verdict{}, errors.New("no route to the ledger")
}

// TestAMachineWithoutItsLedger leaves the work to the others. Their calls are held until it has
// begun some of the work.
func TestAMachineWithoutItsLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: ingest.DefaultRegions, Pages: 1}})
	c := r.catalog()
	store := &silent{Store: memstore.New(nil), asked: make(chan struct{})}
	r.slow = func() { <-store.asked }
	good := r.ledger
	r.ledger = r.newLedger(store, 2, 100)
	lost := r.fleet(c, fleet.Options{})
	r.ledger = good
	r.background(lost.Run)
	r.background(r.fleet(c, fleet.Options{}).Run)
	r.eventually("both are alive", func() bool { return r.number(c, "SELECT count(*) FROM headroom_fleet.daemons") == 2 })
	lost.Tick(t.Context(), r.job("charts"), time.Now())
	r.eventually("the run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL") == 1
	})
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done'"); n != 1 {
		t.Errorf("%d runs are done", n)
	}
}
