package fleet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// TestAPauseOutlastsItsQueue: River deletes the queue of a job that no daemon has worked for a
// day, and its pause with it.
func TestAPauseOutlastsItsQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	c := r.catalog()
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.must(board.Pause(t.Context(), "", "charts")) // no daemon has worked it yet
	if _, err := r.fleet(c, quick).Once(t.Context(), r.job("charts"), ingest.Occasion{}); !errors.Is(err, fleet.ErrPaused) {
		t.Errorf("a run by hand: %v", err)
	}
	f := r.fleet(c, quick)
	stop := r.background(f.Run)
	f.Tick(t.Context(), r.job("charts"), time.Now())
	paused := func(want int) func() bool {
		return func() bool {
			return r.number(c, "SELECT count(*) FROM headroom_fleet.river_queue WHERE (paused_at IS NOT NULL)::integer = $1", want) == 1
		}
	}
	r.eventually("a daemon has the queue, which is paused", paused(1))
	stop()
	_, err = c.Pool().Exec(t.Context(), "DELETE FROM headroom_fleet.river_queue")
	r.must(err)
	f = r.fleet(c, quick)
	r.background(f.Run)
	r.eventually("the next daemon pauses it again", paused(1))
	r.eventually("the work waits in the paused queue", func() bool { // a worker may have got it just before
		s, err := board.Status(t.Context())
		r.must(err)
		return len(s.Units) == 1 && s.Units[0].Paused && s.Units[0].State == fleet.UnitQueued
	})
	if n := r.sim.Counts().Total().Calls; n != 0 {
		t.Errorf("%d calls of a paused job", n)
	}
	r.must(board.Resume(t.Context(), "", "charts"))
	r.eventually("the work is done", func() bool {
		s, err := board.Status(t.Context())
		r.must(err)
		return len(s.Units) == 1 && s.Units[0].State == fleet.UnitIdle
	})
	if n := r.sim.Counts().Total().Calls; n == 0 {
		t.Error("the work is done without a call")
	}
}

// TestANewRegionIsKept: while machines get a new configuration one by one, an old daemon gives
// work back that only the new ones have.
func TestANewRegionIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, region("US"))
	c := r.catalog()
	before := r.fleet(c, quick)
	r.config = &ingest.Config{Jobs: region("US", "DE"), Workers: 2, MaxWait: 2 * time.Second}
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	after := r.fleet(c, quick)
	r.beat(after)
	stop := r.background(before.Run)
	r.must(after.Insert(t.Context(), r.job("charts"), time.Now().Truncate(time.Microsecond)))
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.eventually("the old daemon has done its region, and given the new one back", func() bool {
		r.beat(after)
		done := r.number(c, "SELECT count(*) FROM headroom_fleet.units WHERE work = 'US' AND outcome->>'state' = 'done'")
		open := r.number(c, "SELECT count(*) FROM headroom_fleet.works WHERE work = 'DE' AND next_at > clock_timestamp() + interval '10 seconds'")
		return done == 1 && open == 1
	})
	stop()
	r.doesGermany(c, after, board)
}

// TestADeferredNewRegionIsKept is the same for work that was deferred, which no run has.
func TestADeferredNewRegionIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, region("US"))
	c := r.catalog()
	before := r.fleet(c, quick)
	r.config = &ingest.Config{Jobs: region("US", "DE"), Workers: 2, MaxWait: 2 * time.Second}
	for _, fault := range r.config.Prepare() {
		t.Fatal(fault)
	}
	r.must(r.ledger.BlockFor(t.Context(), units, time.Hour, "a test"))
	after := r.fleet(c, quick)
	stop := r.background(after.Run)
	r.must(after.Insert(t.Context(), r.job("charts"), time.Now().Truncate(time.Microsecond)))
	r.eventually("both regions are deferred", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.works WHERE blocked_on <> ''") == 2
	})
	stop()
	r.must(r.ledger.Admin().Unblock(t.Context(), units))
	r.beat(after)
	stop = r.background(before.Run)
	board, err := fleet.NewBoard(c)
	r.must(err)
	_, err = board.Retry(t.Context(), "", "charts")
	r.must(err)
	r.eventually("the old daemon has done its region, and looked at the new one", func() bool {
		r.beat(after)
		done := r.number(c, "SELECT count(*) FROM headroom_fleet.units WHERE work = 'US' AND outcome->>'state' = 'done'")
		left := r.number(c, "SELECT count(*) FROM headroom_fleet.works WHERE work = 'DE' AND (next_at IS NULL OR next_at > clock_timestamp() + interval '10 seconds')")
		return done == 1 && left == 1
	})
	stop()
	r.doesGermany(c, after, board)
}

// region is a job that is due only when a test says so.
func region(all ...string) map[string]ingest.Job {
	return map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: all, Pages: 1}}
}

// doesGermany runs a daemon until it has done the region DE.
func (r *rig) doesGermany(c *pgcatalog.Catalog, f *fleet.Fleet, board *fleet.Board) {
	r.background(f.Run)
	_, err := board.Retry(r.t.Context(), "", "charts")
	r.must(err)
	r.eventually("a new daemon does it", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.units WHERE work = 'DE' AND outcome->>'state' = 'done'") == 1
	})
}
