package fleet_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// TestAWrongClock: a daemon whose clock is five minutes ahead neither leads nor works, and says
// why, until its clock is right.
func TestAWrongClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE", "FR"}, Pages: 1}})
	c := r.catalog()
	var ahead atomic.Int64
	ahead.Store(int64(5 * time.Minute))
	quick := fleet.Timing{Beat: 200 * time.Millisecond}
	wrong := r.fleet(c, fleet.Options{Timing: quick})
	wrong.Ahead(&ahead)
	r.beat(wrong) // it starts with a clock that it has looked at
	r.background(wrong.Run)
	r.eventually("it says why it does not work", func() bool { return strings.Contains(wrong.Status(), "5m0s ahead") })
	if err := wrong.Reload(t.Context(), r.runner(c, wrong.Clock(), nil), r.config.List(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	works := func(f *fleet.Fleet, at time.Time) {
		t.Helper()
		r.must(f.Insert(t.Context(), r.job("charts"), at))
		r.eventually("the run ends", func() bool {
			return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NULL") == 0
		})
	}
	right := r.fleet(r.catalog(), fleet.Options{Timing: quick})
	stop := r.background(right.Run)
	works(right, time.Now().Add(-time.Minute))
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job WHERE $1 = ANY (attempted_by)", wrong.ID()); n != 0 {
		t.Errorf("the daemon with the wrong clock worked %d times", n)
	}
	if leads, err := wrong.Leads(t.Context()); leads || err != nil {
		t.Error("the daemon with the wrong clock leads", err)
	}
	if _, err := wrong.Once(t.Context(), r.job("charts"), ingest.Occasion{}); err == nil || !strings.Contains(err.Error(), fleet.ErrClock.Error()) {
		t.Error("it makes a run all the same:", err)
	}
	ahead.Store(0)
	stop()
	r.eventually("it works again", func() bool { return wrong.Status() == fleet.Running })
	works(wrong, time.Now())
}

// TestADatabaseWhoseClockWasSetBack: its clock was a day ahead when a job was due last.
func TestADatabaseWhoseClockWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "* * * * *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	next := f.Clock().Now().Truncate(time.Minute).Add(time.Minute)
	var ahead atomic.Int64
	ahead.Store(int64(next.Sub(f.Clock().Now()) - time.Second)) // it need not wait for a minute
	f.Ahead(&ahead)
	r.background(func(ctx context.Context) error {
		f.Ticks(ctx, r.job("charts"), next.Add(24*time.Hour))
		return nil
	})
	r.eventually("the job is due again", func() bool { return r.number(c, "SELECT count(*) FROM headroom_fleet.runs") == 1 })
}

// TestADaemonAfterItsDatabasesClockWasSetBack takes work over from others that are gone, and makes calls.
func TestADaemonAfterItsDatabasesClockWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	f := r.fleet(r.catalog(), fleet.Options{Timing: fleet.Timing{Gone: 2 * time.Second}})
	f.HeardAt(f.Clock().Now().Add(time.Hour))
	r.eventually("it may take over", func() bool {
		r.beat(f)
		return f.Heard()
	})
	if f.Broken() {
		t.Error("it makes no calls")
	}
}

// TestADaemonThatEndedBeforeItsDatabasesClockWasSetBack: it was seen last at a time that is in the future now.
func TestADaemonThatEndedBeforeItsDatabasesClockWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	c := r.catalog()
	f := r.fleet(c, quick)
	r.must(f.Insert(t.Context(), r.job("charts"), f.Clock().Now()))
	for _, was := range []string{
		`INSERT INTO headroom_fleet.daemons (id, host, pid, version, revision, state, units, skew, started_at, seen_at, jobs)
			VALUES ('ghost', 'host', 1, 'v', 1, 'running', 0, 0, now(), now() + interval '1 hour', '{charts}')`,
		"UPDATE headroom_fleet.river_job SET state = 'running', attempt = 1, attempted_at = now() + interval '1 hour', attempted_by = '{ghost}'",
		"UPDATE headroom_fleet.works SET held_by = 'ghost', held_since = now() + interval '1 hour'",
	} {
		_, err := c.Pool().Exec(t.Context(), was)
		r.must(err)
	}
	r.background(f.Run)
	r.eventually("its work is taken over", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.works WHERE taken_from = 'ghost'") == 1 &&
			r.number(c, "SELECT coalesce(sum(pages), 0) FROM headroom_catalog.run_work WHERE work = 'US'") > 0
	})
}

// TestRiverDatesWorkByTheDatabasesClock: a daemon whose clock is wrong inserts the runs that are due, too, and healthy ones
// work them at once.
func TestRiverDatesWorkByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	var behind atomic.Int64
	behind.Store(-int64(5 * time.Minute)) // as if the database's were, and this machine's ahead of it
	f.Ahead(&behind)
	r.must(f.Insert(t.Context(), r.job("charts"), f.Clock().Now()))
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.river_job WHERE state = 'available' AND scheduled_at BETWEEN now() - interval '6 min' AND now() - interval '4 min'"); n != 1 {
		t.Error("the work is dated by this machine's clock")
	}
}
