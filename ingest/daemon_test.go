package ingest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// TestDaemonLosesNoDay: a job spends all of the limit, each day at the same minute.
// Yesterday's units have not quite left the window then.
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
		said  string        // of the times that have no run
	}{
		{"once: what was missed is made up for", 20 * time.Hour, nil, 20 * time.Hour, "2 times since 2026-11-21 00:00 UTC"},
		{"skip: it waits for the next", 20 * time.Hour, func(j *ingest.Job) { j.Misfire = ingest.Skip }, 22 * time.Hour, "3 times since 2026-11-21 00:00 UTC"},
		{"too late: it waits for the next", 20 * time.Hour, func(j *ingest.Job) { j.MaxLateness = time.Hour }, 22 * time.Hour, "3 times since 2026-11-21 00:00 UTC"},
		{"nothing was missed", time.Hour, nil, 4 * time.Hour, ""},
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
			runs, err := r.catalog.Runs(t.Context(), catalog.RunsQuery{Limit: 100})
			r.must(err)
			var said []string
			for _, run := range runs {
				if run.State == catalog.Skipped {
					said = append(said, run.Error)
				}
			}
			if got := strings.Join(said, "; "); (got == "") != (tt.said == "") || !strings.HasPrefix(got, tt.said) || strings.Contains(got, ";") {
				t.Errorf("the history says %q, want %q", got, tt.said)
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
	if len(states) != 1 || states[0] != catalog.Skipped { // the run at noon did its work
		t.Errorf("runs ended %v", states)
	}
}

// TestATimeThatFindsTheJobHeld: who has the job may do other work of it, and a daily
// one must not lose its day to that.
func TestATimeThatFindsTheJobHeld(t *testing.T) {
	for _, tt := range []struct {
		name    string
		misfire ingest.Misfire
		done    int // runs until the next time that it is due
	}{{"once", ingest.Once, 1}, {"skip", ingest.Skip, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 100, charts(func(j *ingest.Job) { j.Cron, j.Misfire = "0 0 * * *", tt.misfire }))
			lock, err := r.locks.Lock(t.Context(), "default/charts")
			r.must(err)
			var done []*ingest.Report
			held := 0
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
				if !errors.Is(err, ingest.ErrHeld) {
					r.must(err)
					done = append(done, rep)
					return
				}
				if held++; held == 2 || tt.misfire == ingest.Skip {
					r.must(lock.Unlock())
				}
			})
			r.must(d.Simulate(t.Context(), r.clock, noon.Add(24*time.Hour)))
			if len(done) != tt.done {
				t.Fatalf("%d runs, want %d", len(done), tt.done)
			}
			for _, rep := range done {
				if rep.State != catalog.Done || len(rep.Work) != 3 {
					t.Errorf("%v", states(rep))
				}
			}
			r.must(d.Simulate(t.Context(), r.clock, noon.Add(30*time.Hour)))
			if len(done) != tt.done+1 {
				t.Errorf("the next day it was run %d times, want once", len(done)-tt.done)
			}
		})
	}
}

// TestWhatComesDueDuringARun: a run takes as long as it is let, until the job is due
// again and a page more.
func TestWhatComesDueDuringARun(t *testing.T) {
	for _, tt := range []struct {
		misfire ingest.Misfire
		second  time.Duration // after noon: when the second run begins
	}{{ingest.Once, 21 * time.Minute}, {ingest.Skip, 30 * time.Minute}} {
		t.Run(string(tt.misfire), func(t *testing.T) {
			r := newRig(t, 1000, charts(func(j *ingest.Job) { j.Cron, j.Misfire = "*/10 * * * *", tt.misfire }))
			r.options.Progress = func(p ingest.Progress) {
				if p.Ended == nil {
					r.clock.Advance(11 * time.Minute)
				}
			}
			r.remake()
			var began []time.Duration
			ctx, stop := context.WithCancel(t.Context())
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) {
				if began = append(began, rep.Started.Sub(noon)); len(began) == 2 {
					stop()
				}
			})
			_ = d.Simulate(ctx, r.clock, noon.Add(2*time.Hour))
			if want := []time.Duration{10 * time.Minute, tt.second}; !slices.Equal(began, want) {
				t.Errorf("runs began after %s, want %s", began, want)
			}
		})
	}
}

// TestWhatCanResumeDuringARun: a run of deferred work waits for units, and the time of other deferred work comes.
func TestWhatCanResumeDuringARun(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.Cron = "0 19 * * SUN" })) // the day after tomorrow
	for _, region := range []string{"US", "DE"} {
		until := map[string]time.Duration{"US": time.Hour, "DE": time.Hour + time.Minute}[region]
		r.must(r.ledger.BlockFor(t.Context(), unitsPool, until, quota.ByHand("the console says so")))
		r.run("charts", ingest.Occasion{Regions: []string{region}})
	}
	var began []time.Duration
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) {
		began = append(began, rep.Started.Sub(noon))
	})
	r.must(d.Simulate(t.Context(), r.clock, noon.Add(2*time.Hour)))
	if want := []time.Duration{time.Hour, time.Hour + time.Minute}; !slices.Equal(began, want) {
		t.Errorf("runs began after %s, want %s", began, want)
	}
}

// steppedClock is a clock that is set while somebody sleeps by it for the first time.
type steppedClock struct {
	*quota.SimClock
	step time.Duration
}

func (c *steppedClock) Sleep(ctx context.Context, d time.Duration) error {
	c.Advance(c.step)
	c.step = 0
	return c.SimClock.Sleep(ctx, d)
}

// TestDaemonHearsThatTheClockWasSet: as where a machine learns the time after it has
// begun.
func TestDaemonHearsThatTheClockWasSet(t *testing.T) {
	for _, tt := range []struct {
		name  string
		step  time.Duration
		first time.Duration // after noon, by the clock that was set
	}{
		{"ahead, past the time", 24 * time.Hour, 24*time.Hour + time.Minute},
		{"ahead", time.Hour, 4 * time.Hour},
		{"back", -time.Hour, 4 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 100, charts(nil)) // due at 00, 06, 12 and 18 UTC; it is 20
			r.options.Clock = &steppedClock{r.clock, tt.step}
			r.remake()
			ctx, stop := context.WithCancel(t.Context())
			var first *ingest.Report
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) {
				first = rep
				stop()
			})
			r.must(d.Run(ctx))
			if want := noon.Add(tt.first); !first.Started.Equal(want) || len(first.Work) != 3 {
				t.Errorf("the first run began at %s, want %s: %v", first.Started, want, states(first))
			}
		})
	}
}

// TestDaemonAfterAClockThatWasSetBack: a clock was a day ahead for a moment, and a run was made by it. The job does not
// wait for that day.
func TestDaemonAfterAClockThatWasSetBack(t *testing.T) {
	r := newRig(t, 100, charts(nil)) // due at 00, 06, 12 and 18 UTC; it is 20
	clock := &steppedClock{r.clock, 24 * time.Hour}
	r.options.Clock = clock
	r.remake()
	ctx, stop := context.WithCancel(t.Context())
	var began []time.Duration
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, _ error) {
		if began = append(began, rep.Started.Sub(noon)); len(began) == 2 {
			stop()
		}
		clock.step = -24 * time.Hour
	})
	r.must(d.Run(ctx))
	if want := []time.Duration{24*time.Hour + time.Minute, 4 * time.Hour}; !slices.Equal(began, want) {
		t.Errorf("runs began %s after noon, want %s", began, want)
	}
}

// TestDaemonWithAnOldBook stops: another process has told the ledger of a newer one.
func TestDaemonWithAnOldBook(t *testing.T) {
	for name, run := range map[string]func(*rig, *ingest.Daemon) error{
		"simulated": func(r *rig, d *ingest.Daemon) error { return d.Simulate(t.Context(), r.clock, noon.AddDate(0, 0, 7)) },
		"running":   func(_ *rig, d *ingest.Daemon) error { return d.Run(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 100, charts(nil))
			_, err := r.newLedger(3, 200).Reserve(t.Context(), quota.Call{Upstream: "youtube", Method: "videos.list"})
			r.must(err)
			runs := 0
			d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(*ingest.Job, *ingest.Report, error) { runs++ })
			if err := run(r, d); !errors.Is(err, quota.ErrStaleBook) || runs != 1 {
				t.Errorf("after %d runs: %v", runs, err)
			}
		})
	}
}
