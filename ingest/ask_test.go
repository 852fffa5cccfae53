package ingest_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

var unitsPool = quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}

// TestNothingToSpend: the ledger is asked once for the whole run, and not by each
// worker.
func TestNothingToSpend(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone func(r *rig) error
	}{
		{"used up", func(r *rig) error {
			_, err := r.ledger.Admin().Adjust(t.Context(), unitsPool, 10, "somebody else")
			return err
		}},
		{"blocked", func(r *rig) error {
			return r.ledger.Block(t.Context(), unitsPool, noon.Add(5*time.Hour), "the upstream said so")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 10, charts(func(j *ingest.Job) { j.Regions = ingest.DefaultRegions }))
			r.config.Workers = 4
			var log bytes.Buffer
			r.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			r.remake()
			r.must(tt.gone(r))
			rep := r.run("charts", ingest.Occasion{})
			if rep.State != catalog.Deferred || rep.Units != 0 || r.sim.Counts().Total().Calls != 0 {
				t.Errorf("%s after %d units: %v", rep.State, rep.Units, states(rep))
			}
			for _, w := range rep.Work {
				if w.ResumeAt.IsZero() || !w.ResumeAt.Equal(rep.ResumeAt) {
					t.Errorf("%s goes on at %s, the run at %s", w.Work, w.ResumeAt, rep.ResumeAt)
				}
			}
			if len(rep.Work) != 8 || strings.Count(log.String(), "resume_at=") != 2 { // nothing to spend, stopped before all was done
				t.Errorf("%d units of work ended, and the log says\n%s", len(rep.Work), &log)
			}
			r.clock.Set(rep.ResumeAt)
			if rep := r.run("charts", ingest.Occasion{Deferred: true}); rep.Units == 0 {
				t.Errorf("nothing could go on at the time that was named: %v", rep.Err)
			}
		})
	}
}

// TestAskingCostsNothing: what a class may spend beyond ordinary callers is found
// out by a reservation that is given back.
func TestAskingCostsNothing(t *testing.T) {
	r := newRig(t, 10, charts(func(j *ingest.Job) { j.Class, j.Regions = "manual", []string{"US"} }))
	_, err := r.ledger.Admin().Adjust(t.Context(), unitsPool, 10, "somebody else") // the headroom of 5 is left
	r.must(err)
	rep := r.run("charts", ingest.Occasion{})
	if rep.State != catalog.Done || rep.Units != 2 {
		t.Errorf("%s after %d units: %v", rep.State, rep.Units, rep.Err)
	}
	usage, err := r.ledger.View().Usage(t.Context(), "youtube", "")
	r.must(err)
	for _, p := range usage {
		if p.Pool.Name == "units" && p.Windows[0].Used != 12 {
			t.Errorf("%d units are used, want 12", p.Windows[0].Used)
		}
	}
}

func TestWithout(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	rep := r.run("charts", ingest.Occasion{Without: []string{"DE"}})
	if got := strings.Join(states(rep), ", "); got != "US done 2, FR done 2" {
		t.Error(got)
	}
}

// TestGoingOnIsNoScheduledRun: what is deferred goes on before the next tick, and
// that tick still comes, also if the daemon is not up by then.
func TestGoingOnIsNoScheduledRun(t *testing.T) {
	r := newRig(t, 3, charts(func(j *ingest.Job) { j.Cron = "0 0 * * SUN" }))
	r.run("charts", ingest.Occasion{Scheduled: noon.Add(-time.Hour)})
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, nil)
	r.must(d.Simulate(t.Context(), r.clock, noon.Add(25*time.Hour))) // Saturday
	last, err := r.runner.LastScheduled(t.Context(), r.job("charts"))
	r.must(err)
	if !last.Equal(noon.Add(-time.Hour)) {
		t.Errorf("the last scheduled run was due at %s", last)
	}
}
