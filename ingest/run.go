package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Options are the options of [NewRunner]. Nil is legal.
type Options struct {
	Clock quota.Clock  // nil: the machine's clock
	Log   *slog.Logger // nil: slog.Default()
	// Progress is called for every saved page, and for all work that ends. Several
	// goroutines call it. It may be nil.
	Progress func(Progress)
	// Tracer follows runs and their work. It may be nil.
	Tracer Tracer
	// Abort ends open calls when it ends. If only the context of a run ends, open calls
	// are finished and their pages saved. Nil never ends.
	Abort context.Context
	// Jitter returns a random duration from 0 to most. Nil means a uniform distribution.
	Jitter func(most time.Duration) time.Duration
}

// Runner makes runs. A run fetches the work of a job, page by page, until the work is
// complete or the quota is used up. A Runner is safe for concurrent use.
type Runner struct {
	ledger   *quota.Ledger
	catalog  Catalog
	upstream Upstream
	locker   lease.Locker

	maxWait     time.Duration
	callTimeout time.Duration
	workers     int

	keepStatisticsDays int

	clock    quota.Clock
	log      *slog.Logger
	progress func(Progress)
	tracer   Tracer
	abort    context.Context
	jitter   func(time.Duration) time.Duration
}

// NewRunner returns a runner for a prepared configuration. A runner that only answers
// questions, and never runs, needs no upstream and no locker.
func NewRunner(c *Config, l *quota.Ledger, to Catalog, u Upstream, locker lease.Locker, o *Options) *Runner {
	if o == nil {
		o = &Options{}
	}
	r := &Runner{
		ledger: l, catalog: to, upstream: u, locker: locker,
		maxWait: c.MaxWait, callTimeout: c.CallTimeout, workers: c.Workers,
		keepStatisticsDays: cmp.Or(c.KeepStatisticsDays, DefaultKeepStatisticsDays),
		clock:              o.Clock, log: o.Log, progress: o.Progress, tracer: o.Tracer, abort: o.Abort, jitter: o.Jitter,
	}
	if r.clock == nil {
		r.clock = quota.SystemClock{}
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	if r.progress == nil {
		r.progress = func(Progress) {}
	}
	if r.tracer == nil {
		r.tracer = untraced{}
	}
	if r.abort == nil {
		r.abort = context.Background()
	}
	if r.jitter == nil {
		r.jitter = func(most time.Duration) time.Duration { return rand.N(most + 1) }
	}
	return r
}

// Occasion says why a run is made, and limits its work.
type Occasion struct {
	// Scheduled is when the run was due. Zero means that a person asked for it. A
	// scheduled run skips work that was completed since then.
	Scheduled time.Time
	Regions   []string // only these; empty: all
	// Deferred limits the run to deferred work that can resume now.
	Deferred bool
	// Without names units of work to skip.
	Without []string
}

// Run makes one run of a job. When the context ends, open pages are finished and saved, and
// the rest is deferred. An error means that no run was made. The report says how the run
// ended.
func (r *Runner) Run(ctx context.Context, j *Job, why Occasion) (*Report, error) {
	lock, err := r.locker.Lock(ctx, lockName(j))
	if err != nil {
		return nil, noRun(ctx, j, err)
	}
	run := &run{Runner: r, job: j, log: r.log.With("job", j.Name), began: r.clock.Now()}
	defer func() {
		if err := lock.Unlock(); err != nil {
			run.log.Error("unlock the job", "error", err)
		}
	}()
	if err := run.begin(ctx, lock, why); err != nil {
		return nil, noRun(ctx, j, err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-lock.Lost():
			stop(ErrLostLock)
		case <-ctx.Done():
		}
	}()
	return run.make(ctx, why)
}

// noRun returns why no run was made. If the context has ended, that is the reason, whatever
// error the interrupted operation returned.
func noRun(ctx context.Context, j *Job, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrHeld) {
		err = interrupted(ctx)
	}
	return fmt.Errorf("run %s: %w", j.Name, err)
}

// lockName returns the name of the lock of a job.
func lockName(j *Job) string { return account(j) + "/" + j.Name }

// account returns the account of a job.
func account(j *Job) string { return cmp.Or(j.Account, quota.DefaultAccount) }

// run is one run of a job.
type run struct {
	*Runner
	job    *Job
	record catalog.Run
	log    *slog.Logger
	began  time.Time
	works  []*Work
	budget *meter.Budget // of the whole run

	deadline time.Time // of the whole run; zero: none

	mu     sync.Mutex
	halted error // not nil: no more work is started
	fails  int   // units of work in a row that the upstream failed
	report Report

	recovered time.Time // see recoverAt
}

// begin selects the work of the run and records the run.
func (r *run) begin(ctx context.Context, lock lease.Lock, why Occasion) error {
	works, err := inRegions(r.Runner.works(r.job), why.Regions)
	if err != nil {
		return err
	}
	if err := r.stalest(ctx, r.job, works); err != nil {
		return err
	}
	if why.Deferred {
		open := r.opened(ctx, r.job)
		works = slices.DeleteFunc(works, func(w *Work) bool {
			at := w.resumeAt(r.began, open)
			return at.IsZero() || at.After(r.began)
		})
	}
	r.works = slices.DeleteFunc(works, func(w *Work) bool {
		done := !why.Scheduled.IsZero() && !w.cursor.CompletedAt.Before(why.Scheduled)
		return done || slices.Contains(why.Without, w.Name)
	})
	queue(r.works)
	fence := catalog.Fence{Name: lockName(r.job), Token: lock.Token()}
	if fence.Token == 0 {
		if fence, err = r.catalog.NewFence(ctx, fence.Name); err != nil {
			return err
		}
	}
	r.budget = meter.NewBudget(r.job.MaxUnits)
	r.report = Report{Job: r.job.Name, Scheduled: why.Scheduled, Started: r.began}
	r.record, err = r.catalog.Begin(ctx, catalog.Start{Job: r.job.Name, Fence: fence, Scheduled: why.Scheduled})
	if errors.Is(err, catalog.ErrFenced) {
		return fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return err
}

// make does the work, several units at a time, and records how it ended.
func (r *run) make(ctx context.Context, why Occasion) (*Report, error) {
	if most := r.maxRuntime(why); most > 0 {
		r.deadline = r.began.Add(most)
	}
	calls, ended := r.tracer.Run(r.abort, r.job, why.Scheduled)
	r.checkQuota(ctx)
	todo := make(chan *Work)
	var workers sync.WaitGroup
	for range min(r.workers, len(r.works)) {
		workers.Go(func() {
			for w := range todo {
				var ended func(*WorkReport)
				w.calls, ended = r.tracer.Work(calls, w.Name, w.Region)
				ended(r.finish(w, r.work(ctx, w, why)))
			}
		})
	}
	for _, w := range r.works {
		todo <- w
	}
	close(todo)
	workers.Wait()
	if after := r.job.Kind.row().after; after != nil {
		after(r)
	}
	rep := r.end()
	ended(rep)
	return rep, nil
}

// maxRuntime returns how long the run may take. By default that is until the job is due
// again.
func (r *run) maxRuntime(why Occasion) time.Duration {
	if r.job.MaxRuntime > 0 || why.Scheduled.IsZero() && !why.Deferred {
		return r.job.MaxRuntime
	}
	return r.job.schedule.Next(r.began).Sub(r.began)
}

// halt stops new work and new pages.
func (r *run) halt(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.halted == nil {
		r.halted = why
	}
}

// stopped returns why no new work or page may start, or nil.
func (r *run) stopped(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case !r.deadline.IsZero() && !r.clock.Now().Before(r.deadline):
		return errMaxRuntime
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.halted != nil {
		return &leftError{r.halted}
	}
	return nil
}

// work fetches the pages of a unit of work.
func (r *run) work(ctx context.Context, w *Work, why Occasion) (done WorkReport) {
	done = WorkReport{Work: w.Name, Region: w.Region}
	budget, kept := r.budget.Part(), int64(0)
	defer func() {
		if p := recover(); p != nil { // the other work continues
			r.log.Error("panic", "work", w.Name, "panic", p, "stack", string(debug.Stack()))
			done.Err = fmt.Errorf("panic: %v", p)
		}
		done.Units = budget.Spent()
		done.lost = done.Units - kept
	}()
	if err := r.stagger(ctx, w, why); err != nil {
		done.Err = err
		return done
	}
	restarted := false
	for pages := 1; ; pages++ {
		if done.Err = r.stopped(ctx); done.Err != nil {
			return done
		}
		spent := budget.Spent()
		page, err := r.fetch(ctx, w, budget)
		if err != nil {
			done.Err = err
			return done
		}
		page.Cursor, page.Region, page.Units = w.cursor, w.Region, budget.Spent()-spent
		last := w.resumable && pages >= r.job.Pages
		if !w.resumable && w.cursor.Page+1 >= int64(r.job.Pages) {
			page.Next, page.Done = "", true
		}
		saved, err := r.save(page)
		if errors.Is(err, catalog.ErrOutOfStep) && !restarted {
			restarted = true
			if err = r.restart(w, err); err == nil {
				continue
			}
		}
		if err != nil {
			done.Err = err
			return done
		}
		if done.add(saved); !saved.Repeated {
			kept += page.Units
		}
		if page.Units > 0 && !saved.Repeated {
			done.Pages++
		}
		w.cursor = saved.Cursor
		r.progress(Progress{Job: r.job.Name, Work: w.Name, Region: w.Region, Works: len(r.works), Page: pages, Pages: r.job.Pages, Saved: saved, Units: budget.Spent()})
		if last && !page.Done {
			done.Err = ErrMorePages
		}
		if page.Done || last {
			return done
		}
	}
}

// stagger delays each region of a scheduled run. It returns an error if the region would
// start after the deadline of the run.
func (r *run) stagger(ctx context.Context, w *Work, why Occasion) error {
	if r.job.Stagger == 0 || why.Scheduled.IsZero() || why.Deferred {
		return nil
	}
	at := r.began.Add(time.Duration(w.place) * r.job.Stagger)
	if wait := at.Sub(r.clock.Now()); wait > 0 {
		if r.late(wait) {
			return errMaxRuntime
		}
		if err := r.clock.Sleep(ctx, wait); err != nil {
			return interrupted(ctx)
		}
	}
	return nil
}

// save commits a page with its cursor. It ignores the end of the run's context, because the
// page is paid for.
func (r *run) save(p *catalog.Page) (catalog.Saved, error) {
	saved, err := r.record.Save(context.WithoutCancel(r.abort), p)
	if err != nil {
		return saved, unsaved(err)
	}
	return saved, nil
}

// jittered returns d and up to a tenth more, so that waiting calls are not all made at
// once.
func (r *Runner) jittered(d time.Duration) time.Duration { return d + r.jitter(d/10) }
