package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// number returns what a query returns.
func (r *rig) number(c *pgcatalog.Catalog, query string, args ...any) (n int) {
	r.t.Helper()
	r.must(c.Pool().QueryRow(r.t.Context(), query, args...).Scan(&n))
	return n
}

// TestTicksOnce lets four daemons insert the same ticks, each in its own order.
func TestTicksOnce(t *testing.T) {
	t.Parallel()
	count := 200
	if soak() {
		count = 2000
	}
	r := newRig(t, 100_000, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE"}, Pages: 1, MaxLateness: 9000 * time.Hour}})
	r.catalog() // makes the tables
	first := time.Now().Add(-time.Duration(count) * time.Minute).Truncate(time.Minute)
	var daemons sync.WaitGroup
	var all []*fleet.Fleet
	var c *pgcatalog.Catalog
	for n := range 4 {
		c = r.catalog()
		f := r.fleet(c, fleet.Options{Workers: 4})
		all = append(all, f)
		daemons.Go(func() {
			for i := range count {
				if n%2 == 1 {
					i = count - 1 - i
				}
				if err := f.Insert(t.Context(), r.job("charts"), first.Add(time.Duration(i)*time.Minute)); err != nil {
					t.Errorf("daemon %d, tick %d: %v", n, i, err)
				}
			}
		})
	}
	daemons.Wait()
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs"); n != count {
		t.Errorf("%d runs for %d ticks", n, count)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.units"); n != 2*count {
		t.Errorf("%d units of work for %d runs of 2", n, count)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job"); n != 2 {
		t.Errorf("%d jobs of River for 2 units of work", n)
	}
	// One pass completes the work of all these runs, for they were due before it.
	r.background(func(ctx context.Context) error { return all[0].Run(ctx) })
	r.eventually("all runs end", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL") == 0
	})
	if n := r.sim.Counts().Total().Calls; n != 2 {
		t.Errorf("%d calls for one pass of 2 units of work", n)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_catalog.runs WHERE state = 'skipped' AND error = 'an earlier run did its work after it was due'"); n != count-1 {
		t.Errorf("the history says of %d runs that they were skipped; one of %d did the work", n, count)
	}
}

// TestRunsThatAreTooLate end without a call, all at once, and the next one in time is worked.
func TestRunsThatAreTooLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE"}, Pages: 1, MaxLateness: time.Hour}})
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	now := time.Now().Truncate(time.Minute)
	for n := range 20 {
		r.must(f.Insert(t.Context(), r.job("charts"), now.Add(-2*time.Hour-time.Duration(n)*time.Minute)))
	}
	r.background(f.Run)
	over := func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL") == 0
	}
	r.eventually("late runs end", over)
	if n, begun := r.sim.Counts().Total().Calls, r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE state IS NOT NULL"); n != 0 || begun != 0 {
		t.Errorf("%d calls and %d runs for times that are too long ago", n, begun)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_catalog.runs WHERE state = 'skipped' AND error LIKE '20 times since % too late%'"); n != 1 {
		t.Errorf("%d records of the history say that 20 runs were too late", n)
	}
	r.must(f.Insert(t.Context(), r.job("charts"), now.Add(-30*time.Minute)))
	r.eventually("the run in time ends", over)
	if n := r.sim.Counts().Total().Calls; n != 2 {
		t.Errorf("%d calls for one pass of 2 units of work", n)
	}
}

// TestSchedule waits for a time of the schedule, which two daemons insert. One of them has
// been reloaded meanwhile.
func TestSchedule(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "* * * * *", Regions: []string{"US"}, Pages: 1, Misfire: ingest.Skip}})
	c := r.catalog()
	one, two := r.fleet(c, fleet.Options{}), r.fleet(r.catalog(), fleet.Options{})
	r.background(one.Run)
	r.background(two.Run)
	r.must(one.Reload(t.Context(), r.runner(c, one.Clock(), nil), r.config.List(), func() error { return nil }))
	r.eventually("a run is done", func() bool { // a daemon's clock may be a little ahead of the database's
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'done' AND created_at - scheduled_at BETWEEN '-5 s' AND '30 s'") == 1
	})
	if n := r.sim.Counts().Total().Calls; n != 1 {
		t.Errorf("%d calls for one page", n)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_catalog.runs WHERE scheduled_at > 0 AND state = 'done'"); n != 1 {
		t.Errorf("%d runs in the history", n)
	}
}

// TestMissedTicks starts a daemon after times that nobody inserted.
func TestMissedTicks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		misfire ingest.Misfire
		want    int
	}{{ingest.Once, 2}, {ingest.Skip, 1}} {
		t.Run(string(tt.misfire), func(t *testing.T) {
			t.Parallel()
			last := time.Now().UTC().Add(-30 * time.Minute).Truncate(time.Minute) // the next time comes long after the test
			r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: fmt.Sprintf("%d * * * *", last.Minute()), Regions: []string{"US"}, Pages: 1, Misfire: tt.misfire}})
			c := r.catalog()
			f := r.fleet(c, fleet.Options{})
			r.must(f.Insert(t.Context(), r.job("charts"), last.Add(-3*time.Hour)))
			stop := r.background(f.Run)
			r.eventually("all runs end", func() bool {
				return r.number(c, "SELECT count(*) FROM headroom_fleet.runs") == tt.want &&
					r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL") == 0
			})
			stop()
			if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE scheduled_at = $1", last); n != tt.want-1 {
				t.Errorf("%d runs for the last time that was missed", n)
			}
		})
	}
}

// TestFirstTickIsNotLost: a job that has never run is due while the database keeps its daemon
// waiting, as after a first start on a busy machine.
func TestFirstTickIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "* * * * *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	lock, err := r.catalog().Pool().Begin(t.Context())
	r.must(err)
	_, err = lock.Exec(t.Context(), "LOCK TABLE headroom_fleet.runs")
	r.must(err)
	due := f.Clock().Now().Truncate(time.Minute).Add(time.Minute)
	r.background(f.Run)
	r.must(f.Clock().Sleep(t.Context(), due.Add(time.Second).Sub(f.Clock().Now())))
	r.must(lock.Rollback(t.Context()))
	r.eventually("the job runs", func() bool { return r.number(c, "SELECT count(*) FROM headroom_fleet.runs") > 0 })
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE scheduled_at = $1", due); n != 1 {
		t.Errorf("%d runs for the first time that was due", n)
	}
}

// TestATickJoinsWorkThatWaits: a unit of work has one job in River, and the later run gets it.
func TestATickJoinsWorkThatWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	at := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	r.must(f.Insert(t.Context(), r.job("charts"), at))
	_, err := c.Pool().Exec(t.Context(), "UPDATE headroom_fleet.river_job SET state = 'scheduled', scheduled_at = now() + interval '6 hours'")
	r.must(err)
	r.must(f.Insert(t.Context(), r.job("charts"), at.Add(time.Second)))
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job WHERE state = 'available'"); n != 1 {
		t.Errorf("%d jobs are available", n)
	}
	r.background(f.Run)
	r.eventually("both runs end", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL") == 2
	})
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job"); n != 1 {
		t.Errorf("%d jobs of River", n)
	}
}
