package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
)

// Options are the options of [NewRunner]. Nil is legal.
type Options struct {
	Clock quota.Clock  // nil: the machine's clock
	Log   *slog.Logger // nil: slog.Default()
	// Progress is called for every saved page, and for all work that ends. Several
	// goroutines call it. It may be nil.
	Progress func(Progress)
	// Program runs the program of a job of kind command once. When ctx ends, it asks the
	// program to stop. When abort ends, it kills it. It returns [ErrInterrupted], or the
	// cause. The calls of the program have the values of abort. Program returns the refusal
	// if the quota is used up. Nil runs none.
	Program func(ctx, abort context.Context, j *Job) error
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
	run      func(ctx, abort context.Context, j *Job) error // a program
	tracer   Tracer
	abort    context.Context
	jitter   func(time.Duration) time.Duration
}

// NewRunner returns a runner for a prepared configuration. A runner that only answers
// questions, and never runs, needs no upstream and no locker.
func NewRunner(c *Config, l *quota.Ledger, to Catalog, u Upstream, locker lease.Locker, o *Options) *Runner {
	o = cmp.Or(o, &Options{})
	r := &Runner{
		ledger: l, catalog: to, upstream: u, locker: locker,
		maxWait: c.MaxWait, callTimeout: c.CallTimeout, workers: c.Workers,
		keepStatisticsDays: cmp.Or(c.KeepStatisticsDays, DefaultKeepStatisticsDays),
		clock:              cmp.Or[quota.Clock](o.Clock, quota.SystemClock{}), log: cmp.Or(o.Log, slog.Default()),
		tracer: cmp.Or[Tracer](o.Tracer, untraced{}), abort: cmp.Or(o.Abort, context.Background()),
		progress: o.Progress, run: o.Program, jitter: o.Jitter,
	}
	if r.progress == nil {
		r.progress = func(Progress) {}
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
		if !errors.Is(err, ErrHeld) && ctx.Err() == nil {
			err = errors.Join(err, r.unlocked(ctx, j, why.Scheduled, err))
		}
		return nil, noRun(ctx, j, err)
	}
	run := r.newRun(j, State{Began: r.clock.Now()})
	defer func() {
		if err := lock.Unlock(); err != nil {
			run.log.Error("unlock the job", "error", err)
		}
	}()
	if err := run.begin(ctx, lock, why); err != nil {
		return nil, noRun(ctx, j, err)
	}
	ctx, stop := context.WithCancelCause(withLock(ctx, lock))
	defer stop(nil)
	defer endWhenLost(lock, ctx, stop)()
	return run.make(ctx, why)
}

// unlocked records a run that was due and could not take the lock of its job, such as for the lack of a right. It is
// one record for each time, however often the run is tried, and touches no run of another process. Nor does it keep
// another process from the run: see [catalog.RunRecord.Unlocked].
func (r *Runner) unlocked(ctx context.Context, j *Job, due time.Time, why error) error {
	runs, err := r.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Bare: true})
	known := func(run catalog.RunRecord) bool {
		return !run.Scheduled.Before(due) && !run.Scheduled.After(r.clock.Now())
	}
	if err != nil || due.IsZero() || slices.ContainsFunc(runs, known) {
		return err
	}
	record, err := r.catalog.Begin(ctx, catalog.Start{Job: j.Name, Scheduled: due, Unlocked: true})
	if err == nil {
		err = record.End(ctx, catalog.Outcome{State: catalog.Failed, ResumeAt: due, Error: why.Error()})
	}
	return err
}

// noRun returns why no run was made. If the context has ended, that is the reason, whatever
// error the interrupted operation returned.
func noRun(ctx context.Context, j *Job, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrHeld) {
		err = interrupted(ctx)
	}
	return fmt.Errorf("run %s: %w", j.Name, err)
}

func lockName(j *Job) string { return account(j) + "/" + j.Name }
func account(j *Job) string  { return cmp.Or(j.Account, quota.DefaultAccount) }

// begin selects the work of the run and records the run.
func (r *Run) begin(ctx context.Context, lock lease.Lock, why Occasion) (err error) {
	if r.works, err = r.Plan(ctx, r.job, r.state.Began, why); err != nil {
		return err
	}
	fence := catalog.Fence{Name: lockName(r.job), Token: lock.Token()}
	if fence.Token == 0 {
		if fence, err = r.catalog.NewFence(ctx, fence.Name); err != nil {
			return err
		}
	}
	r.report = Report{Job: r.job.Name, Scheduled: why.Scheduled, Started: r.state.Began}
	if err := r.skipped(ctx, fence, why.Scheduled); err != nil {
		return heldIfFenced(err)
	}
	r.record, err = r.catalog.Begin(ctx, catalog.Start{Job: r.job.Name, Fence: fence, Scheduled: why.Scheduled})
	return heldIfFenced(err)
}

// heldIfFenced is the error of a run that another process has taken over.
func heldIfFenced(err error) error {
	if errors.Is(err, catalog.ErrFenced) {
		return fmt.Errorf("%w: %w", ErrHeld, err)
	}
	return err
}

// make does the work, several units at a time, and records how it ended.
func (r *Run) make(ctx context.Context, why Occasion) (*Report, error) {
	r.state.Works, r.state.Deadline = len(r.works), r.job.Deadline(r.state.Began, why)
	if r.job.Stagger > 0 && !why.Scheduled.IsZero() && !why.Deferred {
		for _, w := range r.works {
			w.Start = r.state.Began.Add(time.Duration(w.Place) * r.job.Stagger)
		}
	}
	calls, ended := r.tracer.Run(r.abort, r.job, why.Scheduled)
	if err := r.CheckQuota(ctx); err != nil {
		r.works[0].Refused++ // its first call
		r.halt(err)
	}
	todo := make(chan *Work)
	var workers sync.WaitGroup
	for range min(r.workers, len(r.works)) {
		workers.Go(func() {
			for w := range todo {
				var ended func(*WorkReport)
				w.calls, ended = r.tracer.Work(calls, w.Name, w.Region)
				ended(r.finish(w, r.work(ctx, w)))
			}
		})
	}
	for _, w := range r.works {
		todo <- w
	}
	close(todo)
	workers.Wait()
	r.report.Err = r.After()
	rep := r.end()
	ended(rep)
	return rep, nil
}

// work takes steps until the work has ended in this run. It waits for units and for the
// time of the work's region.
func (r *Run) work(ctx context.Context, w *Work) error {
	for {
		switch s := r.Step(ctx, w, time.Time{}); s.Next {
		case At:
			if err := r.clock.Sleep(ctx, s.At.Sub(r.clock.Now())); err != nil {
				return interrupted(ctx)
			}
		case Again: // only the context ends a step without a time
			return interrupted(ctx)
		default:
			return s.Err
		}
	}
}

// Deadline returns when a run must end, or zero. By default that is when the job is due
// again.
func (j *Job) Deadline(began time.Time, why Occasion) time.Time {
	switch {
	case j.MaxRuntime > 0:
		return began.Add(j.MaxRuntime)
	case why.Scheduled.IsZero() && !why.Deferred:
		return time.Time{}
	}
	return j.schedule.Next(began)
}

// Catalog stores fetched data, the position of each job, and the history of runs. A
// [catalog.Catalog] is one. Package plan has another one in memory, for its rehearsals.
type Catalog interface {
	NewFence(ctx context.Context, name string) (catalog.Fence, error)
	Begin(ctx context.Context, s catalog.Start) (catalog.Run, error)
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	ForgetRuns(ctx context.Context, before time.Time) error
	Ages(ctx context.Context, kind catalog.Kind, before time.Time, limit int) ([]catalog.Age, error)
	Expire(ctx context.Context, l catalog.Limits) (catalog.Expired, error)
}

var _ Catalog = (*catalog.Catalog)(nil)

// Upstream fetches pages. Each page takes one call or a few, through a metered client.
type Upstream interface {
	// Trending fetches a page of the chart of a region and category.
	Trending(ctx context.Context, region, category string, at catalog.Cursor) (*catalog.Page, error)
	// Search fetches a page of matching videos, newest first.
	Search(ctx context.Context, q youtube.Query, at catalog.Cursor) (*catalog.Page, error)
	// Uploads fetches a page of the uploads of a channel, newest first.
	Uploads(ctx context.Context, channel string, at catalog.Cursor) (*catalog.Page, error)
	// Statistics, Videos and Channels fetch known videos or channels again, 50 ids at
	// most.
	Statistics(ctx context.Context, ids []string) (*catalog.Page, error)
	Videos(ctx context.Context, ids []string) (*catalog.Page, error)
	Channels(ctx context.Context, ids []string) (*catalog.Page, error)
}

var _ Upstream = (*youtube.Client)(nil)

// Tracer follows runs and their units of work. Several goroutines call it. Its methods
// receive a context that ends with [Options].Abort, and return one derived from it. The
// calls of the work use the returned context, so that a tracer in the transport can relate
// them to their work.
type Tracer interface {
	// Run is called when a run starts. Scheduled is zero if the run is not for a time of
	// the schedule. The returned function is called with the report of the run.
	Run(ctx context.Context, j *Job, scheduled time.Time) (context.Context, func(*Report))
	// Work is called when a unit of work starts, with the context of its run.
	Work(ctx context.Context, work, region string) (context.Context, func(*WorkReport))
}

type untraced struct{}

func (untraced) Run(ctx context.Context, _ *Job, _ time.Time) (context.Context, func(*Report)) {
	return ctx, func(*Report) {}
}

func (untraced) Work(ctx context.Context, _, _ string) (context.Context, func(*WorkReport)) {
	return ctx, func(*WorkReport) {}
}
