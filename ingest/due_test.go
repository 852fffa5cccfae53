package ingest_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func TestDue(t *testing.T) {
	r := newRig(t, 100, charts(nil)) // due at 00, 06, 12 and 18 UTC; it is 20
	due := func() string {
		t.Helper()
		why, is, err := r.runner.Due(t.Context(), r.job("charts"))
		r.must(err)
		if !is {
			return "not"
		}
		return why.Scheduled.Format("02 15:04")
	}
	if got := due(); got != "20 18:00" {
		t.Errorf("a job that has never run is due %s", got)
	}
	r.run("charts", ingest.Occasion{})
	if got := due(); got != "20 18:00" {
		t.Errorf("after a run that a person asked for it is due %s", got)
	}
	r.run("charts", ingest.Occasion{Scheduled: noon.Add(-2 * time.Hour)})
	if got := due(); got != "not" {
		t.Errorf("it has run and is due %s", got)
	}
	r.clock.Advance(16*time.Hour + time.Minute)
	if got := due(); got != "21 12:00" {
		t.Errorf("two times later it is due %s", got)
	}
}

// TestTwoThatAskAtOnce: both are told that the job is due, and run it one after the
// other.
func TestTwoThatAskAtOnce(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	why, _, err := r.runner.Due(t.Context(), r.job("charts"))
	r.must(err)
	r.run("charts", why)
	if rep := r.run("charts", why); rep.Units != 0 || len(rep.Work) != 0 {
		t.Errorf("the second spent %d units: %v", rep.Units, states(rep))
	}
}

// TestAKilledRunIsTakenUp: a process that is killed leaves a run that never ended. The next
// process does not fetch its completed work again.
func TestAKilledRunIsTakenUp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		again func(r *rig) []*ingest.Report
	}{
		{"by cron", func(r *rig) []*ingest.Report {
			why, due, err := r.runner.Due(t.Context(), r.job("charts"))
			r.must(err)
			if !due {
				t.Fatal("it is not due")
			}
			return []*ingest.Report{r.run("charts", why)}
		}},
		{"by a daemon", func(r *rig) (all []*ingest.Report) {
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) { all = append(all, rep) })
			r.must(d.Simulate(t.Context(), r.clock, r.clock.Now().Add(time.Hour)))
			return all
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 100, charts(nil)) // due at 18 UTC; it is 20
			r.run("charts", ingest.Occasion{Scheduled: noon.Add(-2 * time.Hour), Regions: []string{"DE"}})
			_, err := r.catalog.Begin(t.Context(), catalog.Start{Job: "charts"}) // of a process that dies here
			r.must(err)
			all := tt.again(r)
			if len(all) != 1 {
				t.Fatalf("%d runs", len(all))
			}
			if diff := cmp.Diff([]string{"US done 2", "FR done 2"}, states(all[0])); diff != "" {
				t.Error(diff)
			}
			if _, due, err := r.runner.Due(t.Context(), r.job("charts")); due || err != nil {
				t.Errorf("it is still due: %v", err)
			}
		})
	}
}
