package ingest_test

import (
	"context"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestDaemonLosesNoDay: a job spends all of the limit, each day at the same minute.
// Its units of yesterday are still in the window then, by a hair.
func TestDaemonLosesNoDay(t *testing.T) {
	days := 14
	if soak() {
		days = 60
	}
	r := newRig(t, 6, charts(func(j *ingest.Job) { j.Cron = "0 12 * * *" }))
	done := map[string]int{} // by day
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
		r.must(err)
		for _, w := range rep.Work {
			if w.State == catalog.Done {
				done[rep.Started.Format(time.DateOnly)]++
			}
		}
	})
	r.must(d.Simulate(context.Background(), r.clock, noon.Add(time.Duration(days)*24*time.Hour)))
	for day := range days {
		name := noon.Add(time.Duration(day+1) * 24 * time.Hour).Format(time.DateOnly)
		if day < days-1 && done[name] < 3 {
			t.Errorf("on %s %d of 3 charts were fetched", name, done[name])
		}
	}
	if r.refused() > 0 {
		t.Errorf("the upstream refused %d calls", r.refused())
	}
}

// TestDaemonResumesWhenTheLedgerSaid: not at the next tick.
func TestDaemonResumesWhenTheLedgerSaid(t *testing.T) {
	r := newRig(t, 3, charts(func(j *ingest.Job) { j.Cron = "0 0 * * SAT" })) // tomorrow
	var runs []*ingest.Report
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) { runs = append(runs, rep) })
	r.must(d.Simulate(context.Background(), r.clock, noon.Add(60*time.Hour)))
	resumed := 0
	for i, rep := range runs[1:] {
		if at := runs[i].ResumeAt; rep.Started.Equal(at) {
			resumed++
		}
	}
	if resumed == 0 {
		t.Errorf("none of %d runs began when the one before could go on", len(runs))
	}
}

func TestMisfire(t *testing.T) {
	for _, tt := range []struct {
		name  string
		away  time.Duration
		job   func(*ingest.Job)
		first time.Duration // after noon: when the first run after being away is
	}{
		{"once: what was missed is made up for", 20 * time.Hour, nil, 20 * time.Hour},
		{"skip: it waits for the next", 20 * time.Hour, func(j *ingest.Job) { j.Misfire = ingest.Skip }, 22 * time.Hour},
		{"too late: it waits for the next", 20 * time.Hour, func(j *ingest.Job) { j.MaxLateness = time.Hour }, 22 * time.Hour},
		{"nothing was missed", time.Hour, nil, 4 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1000, charts(tt.job)) // due at 00, 06, 12 and 18 UTC; it is 20
			r.run("charts", ingest.Occasion{Scheduled: noon.Add(-2 * time.Hour)})
			r.clock.Set(noon.Add(tt.away))
			var first time.Time
			ctx, stop := context.WithCancel(t.Context())
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) {
				if first.IsZero() {
					first = rep.Started
				}
				stop()
			})
			_ = d.Simulate(ctx, r.clock, noon.Add(40*time.Hour))
			if want := noon.Add(tt.first); !first.Equal(want) {
				t.Errorf("ran at %s, want %s", first, want)
			}
		})
	}
}

// TestDaemonRuns is the daemon on the machine's clock.
func TestDaemonRuns(t *testing.T) {
	r := newRig(t, 1000, charts(nil))
	r.run("charts", ingest.Occasion{Scheduled: noon.Add(-48 * time.Hour)})
	r.clock.Set(noon.Add(time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	var states []catalog.State
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) {
		states = append(states, rep.State)
		stop()
	})
	r.must(d.Run(ctx))
	if len(states) != 1 || states[0] != catalog.Done {
		t.Errorf("runs ended %v", states)
	}
}
