package ingest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

// programmed is a rig whose program is a function.
func programmed(t *testing.T, job ingest.Job, program func(ctx, abort context.Context, j *ingest.Job) error) *rig {
	t.Helper()
	job.Kind, job.Cron, job.Program.Command = ingest.Command, "@hourly", []string{"tap", "-v", "-v", ""}
	r := newRig(t, 100, map[string]ingest.Job{"tap": job})
	r.options.Program = program
	r.remake()
	return r
}

// refusal is a refusal of the ledger for lack of units.
func refusal(at time.Time) error {
	return &quota.RefusedError{Verdict: quota.Verdict{Pool: quota.Pool{Upstream: "youtube", Name: "units"}, RetryAt: at, RetryAfter: time.Minute}}
}

// TestProgramEnds: how a program ends is how its run ends.
func TestProgramEnds(t *testing.T) {
	later := noon.Add(3 * time.Hour)
	for _, c := range []struct {
		name   string
		err    error
		state  catalog.State
		resume time.Time
	}{
		{"well", nil, catalog.Done, time.Time{}},
		{"refused", refusal(later), catalog.Deferred, later},
		{"over the budget of its run", meter.ErrBudget, catalog.Deferred, time.Time{}},
		{"told to stop", ingest.ErrInterrupted, catalog.Deferred, noon},
		{"with an error", errors.New("exit status 3"), catalog.Failed, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := programmed(t, ingest.Job{}, func(context.Context, context.Context, *ingest.Job) error { return c.err })
			rep := r.run("tap", ingest.Occasion{Scheduled: noon})
			if rep.State != c.state || !rep.ResumeAt.Equal(c.resume) || len(rep.Work) != 1 {
				t.Fatalf("the run is %+v", rep)
			}
			at, err := r.runner.ResumeAt(t.Context(), r.job("tap"), nil)
			if r.must(err); !at.Equal(c.resume) {
				t.Errorf("it resumes at %s, want %s", at, c.resume)
			}
		})
	}
}

// TestProgramWaits: a program whose units come back soon runs again in the same run, by the
// time that is left of the wait.
func TestProgramWaits(t *testing.T) {
	n := 0
	var r *rig
	r = programmed(t, ingest.Job{}, func(context.Context, context.Context, *ingest.Job) error {
		n++
		if n == 1 {
			at := r.clock.Now().Add(ingest.DefaultMaxWait + time.Minute)
			r.clock.Advance(90 * time.Second) // before it ends
			return refusal(at)
		}
		return nil
	})
	began := r.clock.Now()
	if rep := r.run("tap", ingest.Occasion{}); rep.State != catalog.Done || n != 2 || rep.Ended.Sub(began) < ingest.DefaultMaxWait+time.Minute {
		t.Errorf("after %d runs and %s: %+v", n, rep.Ended.Sub(began), rep)
	}
}

// TestProgramIsRefusedAtOnce: a program whose refusals are over when it ends does not run
// again and again.
func TestProgramIsRefusedAtOnce(t *testing.T) {
	n := 0
	var r *rig
	r = programmed(t, ingest.Job{}, func(context.Context, context.Context, *ingest.Job) error {
		n++
		return refusal(r.clock.Now())
	})
	if rep := r.run("tap", ingest.Occasion{}); rep.State != catalog.Deferred || n > 200 {
		t.Errorf("after %d runs: %+v", n, rep)
	}
}

// TestProgramIsUnblocked: a program that a block deferred resumes when the block is lifted, on
// any upstream that it may call.
func TestProgramIsUnblocked(t *testing.T) {
	later := noon.Add(3 * time.Hour)
	pool := quota.Pool{Upstream: "youtube", Account: quota.DefaultAccount, Name: "units"}
	r := programmed(t, ingest.Job{}, func(context.Context, context.Context, *ingest.Job) error {
		return &quota.RefusedError{Verdict: quota.Verdict{Pool: pool, Blocked: true, RetryAt: later, RetryAfter: time.Hour}}
	})
	r.must(r.ledger.Block(t.Context(), pool, later, "a test"))
	r.run("tap", ingest.Occasion{})
	for _, want := range []time.Time{later, noon} {
		at, err := r.runner.ResumeAt(t.Context(), r.job("tap"), nil)
		if r.must(err); !at.Equal(want) {
			t.Errorf("it resumes at %s, want %s", at, want)
		}
		r.must(r.ledger.Admin().Unblock(t.Context(), pool))
	}
}

// TestProgramIsCounted: the calls of a program count in its run, which bounds them.
func TestProgramIsCounted(t *testing.T) {
	r := programmed(t, ingest.Job{MaxUnits: 2}, nil)
	r.options.Program = func(_, abort context.Context, _ *ingest.Job) error {
		for {
			if _, err := r.upstream().Videos(abort, []string{"abc"}); err != nil {
				return err
			}
		}
	}
	r.remake()
	rep := r.run("tap", ingest.Occasion{})
	if rep.State != catalog.Deferred || rep.Units != 2 || !errors.Is(rep.Err, meter.ErrBudget) {
		t.Errorf("the run is %+v", rep)
	}
	spent, err := r.ledger.View().Spend(t.Context(), quota.SpendQuery{}, quota.ByJob)
	if r.must(err); len(spent) != 1 || spent[0].Labels.Job != "tap" {
		t.Errorf("the spend is %+v", spent)
	}
}

// TestProgramIsStopped: a program is asked to stop with its run and at max_runtime, and is
// killed when the lock is lost.
func TestProgramIsStopped(t *testing.T) {
	t.Run("with its run", func(t *testing.T) {
		run, stop := context.WithCancel(t.Context())
		r := programmed(t, ingest.Job{}, func(ctx, abort context.Context, _ *ingest.Job) error {
			stop()
			<-ctx.Done()
			return errors.Join(ingest.ErrInterrupted, abort.Err())
		})
		rep, err := r.runner.Run(run, r.job("tap"), ingest.Occasion{})
		if r.must(err); rep.State != catalog.Deferred || rep.Work[0].Err.Error() != ingest.ErrInterrupted.Error() {
			t.Errorf("the run is %+v", rep)
		}
	})
	t.Run("at max_runtime", func(t *testing.T) {
		r := programmed(t, ingest.Job{MaxRuntime: time.Millisecond}, func(ctx, _ context.Context, _ *ingest.Job) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if rep := r.run("tap", ingest.Occasion{}); rep.State != catalog.Deferred || !rep.ResumeAt.IsZero() || !strings.Contains(rep.Err.Error(), "max_runtime") {
			t.Errorf("the run is %+v", rep)
		}
	})
	t.Run("without its lock", func(t *testing.T) {
		locks := &losable{lost: make(chan struct{})}
		r := programmed(t, ingest.Job{}, func(_, abort context.Context, _ *ingest.Job) error {
			locks.lose()
			<-abort.Done()
			return context.Cause(abort)
		})
		r.locks = locks
		r.remake()
		if rep := r.run("tap", ingest.Occasion{}); !errors.Is(rep.Err, ingest.ErrLostLock) {
			t.Errorf("the run is %+v", rep)
		}
	})
}

// losable is a lock that is lost when a test says so.
type losable struct {
	lost chan struct{}
	lose func()
}

func (l *losable) Lock(context.Context, string) (lease.Lock, error) {
	l.lose = sync.OnceFunc(func() { close(l.lost) })
	return l, nil
}
func (l *losable) Token() int64          { return 0 }
func (l *losable) Lost() <-chan struct{} { return l.lost }
func (l *losable) Unlock() error         { return nil }

// TestDaemonRunsPrograms: the daemon runs a program by its schedule, and again when its units
// are back.
func TestDaemonRunsPrograms(t *testing.T) {
	var at []time.Time
	var r *rig
	r = programmed(t, ingest.Job{}, func(context.Context, context.Context, *ingest.Job) error {
		at = append(at, r.clock.Now())
		if len(at) == 1 {
			return refusal(r.clock.Now().Add(20 * time.Minute))
		}
		return nil
	})
	d := ingest.NewDaemon(r.runner, []*ingest.Job{r.job("tap")}, nil)
	r.must(d.Simulate(t.Context(), r.clock, noon.Add(2*time.Hour+time.Minute)))
	if len(at) != 3 || !at[0].Equal(noon.Add(time.Hour)) || !at[1].Equal(noon.Add(80*time.Minute)) || !at[2].Equal(noon.Add(2*time.Hour)) {
		t.Errorf("it ran at %v", at)
	}
}

// TestProgramSettings: only jobs of kind command have programs, and each of them has one.
func TestProgramSettings(t *testing.T) {
	program := ingest.Program{Command: []string{"tap"}}
	for name, c := range map[string]struct {
		job  ingest.Job
		want string
	}{
		"none":          {ingest.Job{Kind: ingest.Command}, "jobs.tap.command: a job of kind command needs a command"},
		"elsewhere":     {ingest.Job{Kind: ingest.Trending, Program: program}, "jobs.tap.command: command belongs to command jobs, but this job is trending"},
		"a grace":       {ingest.Job{Kind: ingest.Stats, Program: ingest.Program{Grace: time.Second}}, "jobs.tap.grace: grace belongs to command jobs"},
		"no on_refusal": {ingest.Job{Kind: ingest.Command, Program: ingest.Program{Command: []string{"tap"}, OnRefusal: "wait"}}, `there is no on_refusal "wait"; write finish or stop`},
		"queries":       {ingest.Job{Kind: ingest.Command, Program: program, Queries: []string{"a"}}, "queries belong to search jobs"},
	} {
		c.job.Cron = "@hourly"
		config := ingest.Config{Jobs: map[string]ingest.Job{"tap": c.job}}
		if faults := config.Prepare(); len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, faults, c.want)
		}
	}
}
