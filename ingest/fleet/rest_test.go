package fleet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// watched is a ledger that calls look before it shows its pools.
type watched struct {
	quota.Store
	look func()
}

func (w *watched) Look(ctx context.Context, charges []quota.Charge) ([]quota.PageState, error) {
	w.look()
	return w.Store.Look(ctx, charges)
}

// TestATickJoinsWorkThatGoesToRest inserts a run at the moment when a worker has found
// nothing to do for hours. The run must not wait that long.
func TestATickJoinsWorkThatGoesToRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US"}, Pages: 1}})
	c := r.catalog()
	var f *fleet.Fleet
	var joined atomic.Bool
	due := time.Now().Truncate(time.Microsecond)
	r.ledger = r.newLedger(&watched{memstore.New(nil), func() {
		if joined.Load() { // the worker may look once more when the test is over
			return
		}
		if r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL") == 1 && joined.CompareAndSwap(false, true) {
			if err := f.Insert(context.Background(), r.job("charts"), due.Add(time.Millisecond)); err != nil {
				t.Error(err)
			}
		}
	}}, 2, 100)
	r.must(r.ledger.BlockFor(t.Context(), units, time.Hour, "a test"))
	f = r.fleet(c, fleet.Options{Timing: fleet.Timing{Mend: time.Hour}})
	r.background(f.Run)
	r.must(f.Insert(t.Context(), r.job("charts"), due))
	r.eventually("a run joins the work that goes to rest", joined.Load)
	r.eventually("that run ends", func() bool {
		return r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE ended_at IS NOT NULL") == 2
	})
}

// TestOnceOfAPausedJob says so, and ends. A pause ends it, too, if it comes later.
func TestOnceOfAPausedJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: []string{"US", "DE", "FR"}, Pages: 3}})
	c := r.catalog()
	board, err := fleet.NewBoard(c)
	r.must(err)
	var calls atomic.Int64
	r.slow = func() {
		if calls.Add(1) == 1 {
			r.must(board.Pause(t.Context(), "", "charts"))
		}
	}
	o := fleet.Options{Workers: 1}
	if _, err := r.fleet(c, o).Once(t.Context(), r.job("charts"), ingest.Occasion{}); !errors.Is(err, fleet.ErrPaused) {
		t.Errorf("paused meanwhile: %v", err)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs WHERE report->>'state' = 'deferred'"); n != 1 {
		t.Errorf("%d runs are deferred", n)
	}
	before := calls.Load()
	if _, err := r.fleet(c, o).Once(t.Context(), r.job("charts"), ingest.Occasion{}); !errors.Is(err, fleet.ErrPaused) {
		t.Errorf("paused before: %v", err)
	}
	if n := r.number(c, "SELECT count(*) FROM headroom_fleet.runs"); n != 1 || calls.Load() != before {
		t.Errorf("%d runs and %d more calls of a paused job", n, calls.Load()-before)
	}
	r.must(board.Resume(t.Context(), "", "charts"))
	rep, err := r.fleet(c, o).Once(t.Context(), r.job("charts"), ingest.Occasion{})
	r.must(err)
	if rep.State != "done" {
		t.Errorf("resumed: %s %v", rep.State, rep.Err)
	}
}

// TestFailedCallsCount: the units of calls that return no page count at once for the whole run.
func TestFailedCallsCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		regions []string
		max     int64 // max_units
		slice   time.Duration
		most    int // calls
	}{
		"in the next slice":        {[]string{"US"}, 2, 700 * time.Millisecond, 2}, // a retry waits longer
		"for another unit of work": {[]string{"US", "DE", "FR"}, 3, 0, 6},          // each may exceed it by a call
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 100, map[string]ingest.Job{"charts": {Kind: ingest.Trending, Cron: "0 0 1 1 *", Regions: c.regions, Pages: 1, MaxUnits: c.max}})
			r.sim.Inject(youtubesim.Fault{Do: youtubesim.Answer, Status: 503})
			rep, err := r.fleet(r.catalog(), fleet.Options{Workers: 3, Timing: fleet.Timing{Slice: c.slice}}).Once(t.Context(), r.job("charts"), ingest.Occasion{})
			r.must(err)
			if n := int(r.sim.Counts().Total().Calls); n > c.most || rep.Units != int64(n) {
				t.Errorf("%d calls and %d units with max_units %d, want %d at most", n, rep.Units, c.max, c.most)
			}
		})
	}
}

// TestAPauseOfRetention stops calls, and not the deletion of data that may no longer be kept.
func TestAPauseOfRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, oneChart())
	c := r.catalog()
	f := r.fleet(c, fleet.Options{})
	r.background(f.Run)
	board, err := fleet.NewBoard(c)
	r.must(err)
	r.eventually("the job can be paused", func() bool { return board.Pause(t.Context(), "", "retention") == nil })
	_, err = c.Pool().Exec(t.Context(), "INSERT INTO headroom_catalog.channels VALUES ('UCold', 1, 1, '', '', '', '', '')")
	r.must(err)
	f.Tick(t.Context(), r.job("retention"), time.Now())
	if n := r.number(c, "SELECT count(*) FROM headroom_catalog.channels"); n != 0 {
		t.Error("data that is too old was not deleted")
	}
}
