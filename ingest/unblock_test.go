package ingest_test

import (
	"context"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// eventful is a clock at which something happens, once it is told to sleep past a time.
type eventful struct {
	*quota.SimClock
	at     time.Time
	happen func()
}

func (c *eventful) Sleep(ctx context.Context, d time.Duration) error {
	if c.happen != nil && c.Now().Add(d).After(c.at) {
		c.happen()
		c.happen = nil
	}
	return c.SimClock.Sleep(ctx, d)
}

// TestUnblockingFreesWhatTheBlockDeferred: a daemon that sleeps goes on within its next
// nap, whoever has lifted the block. Other deferred work waits for its time.
func TestUnblockingFreesWhatTheBlockDeferred(t *testing.T) {
	const block = 5 * time.Hour
	shut := func(r *rig) error {
		return r.ledger.BlockFor(t.Context(), unitsPool, block, quota.ByHand("the console says so"))
	}
	for _, tt := range []struct {
		name   string
		hinder func(*rig) error          // keeps the first run from doing anything
		event  func(*quota.Ledger) error // an hour later, by another process
		again  time.Duration             // after noon: when the daemon goes on
	}{
		{"a block that is lifted", shut, func(l *quota.Ledger) error { return l.Admin().Unblock(t.Context(), unitsPool) }, time.Hour + time.Minute},
		{"a block that stays", shut, func(*quota.Ledger) error { return nil }, block},
		{"a block of another pool that is lifted", shut, func(l *quota.Ledger) error {
			return l.Admin().Unblock(t.Context(), quota.Pool{Upstream: "youtube", Account: "default", Name: "searches"})
		}, block},
		{"a quota that is used up", func(r *rig) error { _, err := r.ledger.Admin().Adjust(t.Context(), unitsPool, 10, "spent"); return err }, func(l *quota.Ledger) error {
			if _, err := l.Admin().Adjust(t.Context(), unitsPool, -10, "counted twice"); err != nil {
				return err
			}
			return l.Admin().Unblock(t.Context(), unitsPool)
		}, 24*time.Hour + time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 10, charts(func(j *ingest.Job) { j.Cron = "0 19 * * SUN" })) // the day after tomorrow
			r.must(tt.hinder(r))
			if rep := r.run("charts", ingest.Occasion{}); rep.State != catalog.Deferred || r.sim.Counts().Total().Calls != 0 {
				t.Fatalf("%v, after %d calls", states(rep), r.sim.Counts().Total().Calls)
			}
			other := r.newLedger(2, 10)
			r.options.Clock = &eventful{r.clock, noon.Add(time.Hour), func() { r.must(tt.event(other)) }}
			r.remake()
			var rep *ingest.Report
			ctx, stop := context.WithCancel(t.Context())
			r.must(ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, done *ingest.Report, err error) {
				r.must(err)
				rep = done
				stop()
			}).Run(ctx))
			if at := rep.Started.Sub(noon); at != tt.again || rep.State != catalog.Done || len(rep.Work) != 3 {
				t.Errorf("it went on after %s, want %s: %v", at, tt.again, states(rep))
			}
			if resume, err := r.runner.ResumeAt(t.Context(), r.job("charts"), nil); err != nil || !resume.IsZero() {
				t.Errorf("and would at %s again, %v", resume, err)
			}
		})
	}
}

// TestABlockThatIsLiftedFreesARunNow: for programs that are started now and then.
func TestABlockThatIsLiftedFreesARunNow(t *testing.T) {
	r := newRig(t, 10, charts(nil))
	r.must(r.ledger.BlockFor(t.Context(), unitsPool, 5*time.Hour, quota.ByHand("the console says so")))
	r.run("charts", ingest.Occasion{})
	r.clock.Advance(time.Minute)
	if rep := r.run("charts", ingest.Occasion{Deferred: true}); len(rep.Work) != 0 || r.sim.Counts().Total().Calls != 0 {
		t.Errorf("while the pool is shut: %v, %d calls", states(rep), r.sim.Counts().Total().Calls)
	}
	r.must(r.newLedger(2, 10).Admin().Unblock(t.Context(), unitsPool))
	at, err := r.runner.ResumeAt(t.Context(), r.job("charts"), nil)
	if err != nil || at.After(r.clock.Now()) {
		t.Errorf("it goes on at %s, %v", at, err)
	}
	if rep := r.run("charts", ingest.Occasion{Deferred: true}); len(rep.Work) != 3 || rep.State != catalog.Done {
		t.Errorf("when it is open: %v", states(rep))
	}
}
