package ingest_test

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota/lease"
)

// TestAnotherProcessTakesOver in the middle of a run whose lease it does not know to be
// lost, as that of a process that was asleep.
func TestAnotherProcessTakesOver(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.Cron = "0 0 * * *" }))
	taken := false
	r.options.Progress = func(p ingest.Progress) {
		if p.Ended == nil && !taken {
			taken = true
			_, err := r.catalog.NewFence(t.Context(), "default/charts")
			r.must(err)
		}
	}
	r.remake()
	var runs []*ingest.Report
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("charts")}, func(_ *ingest.Job, rep *ingest.Report, err error) {
		r.must(err)
		runs = append(runs, rep)
	})
	r.must(d.Simulate(context.Background(), r.clock, noon.Add(6*time.Hour)))
	if len(runs) != 2 || runs[0].State != catalog.Deferred || !errors.Is(runs[0].Err, ingest.ErrLostLock) || runs[0].Units != 2 {
		t.Fatalf("%d runs; the first is %s: %v", len(runs), runs[0].State, runs[0].Err)
	}
	if rep := runs[1]; rep.State != catalog.Done || len(rep.Work) != 3 {
		t.Errorf("the second is %s: %v", rep.State, states(rep))
	}
}

// behind gives tokens of a clock that is behind the one that gave those before.
type behind struct{ lease.Locker }

type low struct{ lease.Lock }

func (low) Token() int64 { return 1 }

func (b behind) Lock(ctx context.Context, name string) (lease.Lock, error) {
	lock, err := b.Locker.Lock(ctx, name)
	return low{lock}, err
}

func TestALeaseBelowAnotherIsHeld(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	r.run("charts", ingest.Occasion{})
	r.locks = behind{r.locks}
	r.remake()
	if _, err := r.runner.Run(t.Context(), r.job("charts"), ingest.Occasion{}); !errors.Is(err, ingest.ErrHeld) {
		t.Errorf("%v, want %v", err, ingest.ErrHeld)
	}
}

// lapsing are locks that are lost when they are told to be.
type lapsing struct {
	lease.Locker
	lost chan struct{}
}

type lapsed struct {
	lease.Lock
	lost chan struct{}
}

func (l lapsed) Lost() <-chan struct{} { return l.lost }

func (l lapsing) Lock(ctx context.Context, name string) (lease.Lock, error) {
	lock, err := l.Locker.Lock(ctx, name)
	return lapsed{lock, l.lost}, err
}

// TestALostLeaseEndsTheRun: pages under way are finished, and the rest can go on at
// once, by whoever gets the job.
func TestALostLeaseEndsTheRun(t *testing.T) {
	r := newRig(t, 100, charts(func(j *ingest.Job) { j.Regions, j.Pages = ingest.DefaultRegions, 4 }))
	locks := lapsing{r.locks, make(chan struct{})}
	r.locks = locks
	var once sync.Once
	r.options.Progress = func(ingest.Progress) { once.Do(func() { close(locks.lost) }) }
	r.remake()
	rep := r.run("charts", ingest.Occasion{})
	if rep.State != catalog.Deferred || !errors.Is(rep.Err, ingest.ErrLostLock) || rep.Units == 32 || !rep.ResumeAt.Equal(noon) {
		t.Errorf("%s after %d units, goes on at %s: %v", rep.State, rep.Units, rep.ResumeAt, rep.Err)
	}
	locks.lost = nil
	r.locks, r.options.Progress = locks, nil
	r.remake()
	if again := r.run("charts", ingest.Occasion{Deferred: true}); again.State != catalog.Done || rep.Units+again.Units != 32 {
		t.Errorf("%s after %d units and %d: %v", again.State, rep.Units, again.Units, again.Err)
	}
}

// barred are locks that cannot be taken, for the lack of a right.
type barred struct{ lease.Locker }

func (barred) Lock(context.Context, string) (lease.Lock, error) { return nil, fs.ErrPermission }

// TestARunWithoutItsLockIsRecorded: a job whose lock cannot be taken has one failed run for its time, however often it
// is tried, and is due again. The run of another process is left alone.
func TestARunWithoutItsLockIsRecorded(t *testing.T) {
	r := newRig(t, 100, charts(nil))
	due := noon.Add(-2 * time.Hour)
	other, err := r.catalog.Begin(t.Context(), catalog.Start{Job: "charts", Scheduled: due.Add(-time.Hour)})
	r.must(err)
	r.locks = barred{r.locks}
	r.remake()
	for range 3 {
		if _, err := r.runner.Run(t.Context(), r.job("charts"), ingest.Occasion{Scheduled: due}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v, want %v", err, fs.ErrPermission)
		}
		r.clock.Advance(10 * time.Minute)
	}
	runs, err := r.catalog.Runs(t.Context(), catalog.RunsQuery{Job: "charts", Limit: 10})
	r.must(err)
	if len(runs) != 2 || runs[0].State != catalog.Failed || !runs[0].Scheduled.Equal(due) || runs[0].Error != fs.ErrPermission.Error() || runs[1].State != catalog.Running {
		t.Errorf("the runs are %+v", runs)
	}
	if why, is, err := r.runner.Due(t.Context(), r.job("charts")); err != nil || !is || !why.Scheduled.Equal(due) {
		t.Errorf("due: %v %v %v", why, is, err)
	}
	r.must(other.End(t.Context(), catalog.Outcome{State: catalog.Done}))
}

// TestARunWithoutItsLockHoldsUpNoOther: a process that may not take the lock keeps neither itself nor another process
// from the run, also while the quota has deferred other work of the job.
func TestARunWithoutItsLockHoldsUpNoOther(t *testing.T) {
	r := newRig(t, 3, charts(func(j *ingest.Job) { j.Cron = "0 * * * *" }))
	if rep := r.run("charts", ingest.Occasion{Scheduled: noon}); rep.State != catalog.Deferred {
		t.Fatalf("%s: %v", rep.State, rep.Err)
	}
	locks := r.locks
	for range 3 { // the timers of two users
		r.clock.Advance(time.Hour)
		due := r.clock.Now()
		r.locks = barred{locks}
		r.remake()
		for range 2 {
			if _, err := r.runner.Run(t.Context(), r.job("charts"), ingest.Occasion{Scheduled: due}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%v, want %v", err, fs.ErrPermission)
			}
		}
		r.locks = locks
		r.remake()
		why, is, err := r.runner.Due(t.Context(), r.job("charts"))
		if err != nil || !is || !why.Scheduled.Equal(due) {
			t.Errorf("due: %v %v %v, want %s", why, is, err, due)
		}
		r.run("charts", why)
		if why, is, err := r.runner.Due(t.Context(), r.job("charts")); err != nil || is {
			t.Errorf("due once more: %v %v", why, err)
		}
	}
	if runs, err := r.catalog.Runs(t.Context(), catalog.RunsQuery{Job: "charts"}); err != nil || len(runs) != 7 {
		t.Errorf("%d runs and %v, want one of each for each time", len(runs), err)
	}
}
