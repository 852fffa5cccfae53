package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// endRun ends a run whose work has ended: it deletes what is too old if the job does that,
// and records the report. The fence is checked in the last transaction. It may be nil.
func (f *Fleet) endRun(ctx context.Context, j *ingest.Job, runner *ingest.Runner, id int64, fence func(*pgx.Batch)) error {
	failed := runner.Join(j, ingest.State{}, nil).After()
	var rep *ingest.Report
	err := f.behind(context.WithoutCancel(ctx), fence, func(ctx context.Context, tx pgx.Tx) error {
		rep = nil
		r, err := lockRun(ctx, tx, id)
		if err != nil || r.ended {
			return err
		}
		if err := r.begin(ctx, tx, f, j, 0); err != nil {
			return err
		}
		if rep, err = f.report(ctx, tx, j, r); err != nil {
			return err
		}
		rep.Err = failed
		runner.Join(j, *r.state, nil).Sum(rep)
		if err := f.catalog.In(tx).Join(*r.record, j.Name, catalog.Fence{}).End(ctx, rep.Outcome()); err != nil {
			return err
		}
		return exec(ctx, tx, "run_end", id, text(ending{State: rep.State, Ended: rep.Ended, ResumeAt: rep.ResumeAt, Cause: ingest.CauseOf(rep.Err)}))
	})
	if err == nil && rep != nil {
		f.o.Done(j, rep, nil)
	}
	return err
}

// report returns what the work of a run has done so far.
func (f *Fleet) report(ctx context.Context, tx pgx.Tx, j *ingest.Job, r *row) (*ingest.Report, error) {
	rep := &ingest.Report{Job: j.Name, Scheduled: r.why().Scheduled, Units: r.units}
	if r.state != nil {
		rep.Started = r.state.Began
	}
	works, err := collect(ctx, tx, func(row pgx.CollectableRow) (w ingest.WorkReport, err error) {
		var o *ending
		ended := false
		err = row.Scan(&w.Work, &w.Region, &w.Tally, &o, &ended)
		if o != nil {
			w.State, w.ResumeAt, w.BlockedOn, w.Err = o.State, o.ResumeAt, o.BlockedOn, o.Cause.Err()
		} else { // it has still to be done
			w.State, w.ResumeAt, w.Err = catalog.Deferred, f.clock.Now(), ingest.ErrInterrupted
		}
		return w, err
	}, sql("units_of"), r.id)
	rep.Work = works
	return rep, err
}

// Report returns the report of a run, and whether the run has ended.
func (f *Fleet) Report(ctx context.Context, j *ingest.Job, id int64) (rep *ingest.Report, over bool, err error) {
	err = f.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r := &row{id: id}
		var e *ending
		if err := tx.QueryRow(ctx, sql("run_report"), id).Scan(&r.scheduled, &r.units, &r.state, &e, &over); err != nil {
			return err
		}
		if rep, err = f.report(ctx, tx, j, r); err != nil {
			return err
		}
		if e != nil {
			rep.State, rep.Ended, rep.ResumeAt, rep.Err = e.State, e.Ended, e.ResumeAt, e.Cause.Err()
		}
		return nil
	})
	return rep, over, err
}

// Once makes a run of a job, without a daemon: this process works the job's queue until all
// work of the run has ended. It returns [ErrPaused] if a person paused the job, and
// [ErrDatabase] if the database is down for [Silence]. If the context ends, open pages are
// finished and saved, and work that nobody has begun is deferred.
func (f *Fleet) Once(ctx context.Context, j *ingest.Job, why ingest.Occasion) (*ingest.Report, error) {
	rep, err := f.once(ctx, j, why)
	if err == nil {
		return rep, nil
	}
	if ctx.Err() != nil && !errors.Is(err, ErrPaused) {
		err = ingest.ErrInterrupted
	}
	return nil, fmt.Errorf("run %s: %w", j.Name, err)
}

func (f *Fleet) once(ctx context.Context, j *ingest.Job, why ingest.Occasion) (*ingest.Report, error) {
	f.know(j)
	if off := f.clock.off(); off != "" {
		return nil, fmt.Errorf("%w: %s", ErrClock, off)
	}
	if err := f.paused(ctx, j); err != nil {
		return nil, err
	}
	if err := f.adopt(ctx, j, f.state().runner); err != nil { // no daemon may be there to do it
		return nil, err
	}
	id, err := f.insert(ctx, j, why, f.clock.Now())
	if err != nil {
		if id != 0 { // it has some of its work
			apart := context.WithoutCancel(ctx)
			err = errors.Join(err, f.stopAdding(apart, id), f.abandon(apart, j, id))
		}
		return nil, err
	}
	if id == 0 && !why.Scheduled.IsZero() { // its process may have been killed
		if _, err := found(f.one(ctx, &id, "run_open", account(j), j.Name, why.Scheduled)); err != nil {
			return nil, err
		}
	}
	if id == 0 { // another process made this run, or nothing is left to resume
		return nil, ingest.ErrHeld
	}
	defer f.appear(ctx, j)()
	starting, cancel := context.WithTimeoutCause(ctx, f.o.Timing.Silence, ErrDatabase)
	defer cancel()
	if err := f.start(starting, []*ingest.Job{j}); err != nil {
		return nil, err
	}
	err = f.await(ctx, j, id)
	f.halt()
	if errors.Is(err, quota.ErrStaleBook) || errors.Is(err, ErrDatabase) {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if err != nil {
		if err := f.abandon(ctx, j, id); err != nil {
			return nil, err // a daemon, or the next run, goes on
		}
	}
	if errors.Is(err, ErrPaused) {
		return nil, err
	}
	rep, over, err := f.Report(ctx, j, id)
	if err != nil {
		return nil, err
	}
	if !over {
		rep.State, rep.Err, rep.Ended = catalog.Deferred, ingest.ErrInterrupted, f.clock.Now()
	}
	return rep, nil
}

// appear shows this process among the daemons, with its only job, until gone is called.
func (f *Fleet) appear(ctx context.Context, j *ingest.Job) (gone func()) {
	f.alter(func(s *state) { s.only = j })
	beats, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	// The database may note a beat that was cut off after the end that follows. So the last one may finish.
	side.Go(func() {
		f.every(beats, f.o.Timing.Beat, func(context.Context) error { return f.beat(context.WithoutCancel(ctx)) })
	})
	return func() {
		quiet()
		side.Wait()
		f.disappear()
	}
}

// know adds a job that the configuration does not have, such as a backfill.
func (f *Fleet) know(j *ingest.Job) {
	f.alter(func(s *state) {
		s.jobs = slices.DeleteFunc(slices.Clone(s.jobs), func(k *ingest.Job) bool { return k.Name == j.Name && account(k) == account(j) })
		s.jobs = append(s.jobs, j)
	})
}

// paused returns an error if nobody works on a job until a person resumes it.
func (f *Fleet) paused(ctx context.Context, j *ingest.Job) error {
	paused := false
	if err := f.one(ctx, &paused, "job_paused", account(j), j.Name, queue(j)); err != nil || !paused {
		return err
	}
	return ErrPaused
}

// Silence is how long a run without a daemon waits for a database that does not answer.
const Silence = 3 * time.Minute

// ErrClock says that this process must not work.
var ErrClock = errors.New("the clock of this machine is wrong")

// ErrDatabase says that the database did not answer for long.
var ErrDatabase = errors.New("the database does not answer")

func (f *Fleet) await(ctx context.Context, j *ingest.Job, id int64) error {
	runner := f.state().runner
	for answered, adopted := f.clock.Now(), f.clock.Now(); ; {
		if now := f.clock.Now(); now.Sub(adopted) > f.o.Timing.Mend { // its process may have been killed
			adopted = now
			if err := f.adopt(ctx, j, runner); err != nil && ctx.Err() == nil {
				f.log.Warn("cannot go on with a run", "job", j.Name, "error", err)
			}
		}
		over := false
		err := f.one(ctx, &over, "run_ended", id)
		if over && err == nil {
			return nil
		}
		if now := f.clock.Now(); err == nil {
			answered = now
		} else if now.Sub(answered) > f.o.Timing.Silence && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", ErrDatabase, err)
		}
		if err := f.paused(ctx, j); errors.Is(err, ErrPaused) {
			return err
		}
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		select {
		case <-f.state().stale:
			cancel()
			return fmt.Errorf("%w: %s", quota.ErrStaleBook, f.Status())
		case <-pause.Done():
			cancel()
		}
		if ctx.Err() != nil {
			return ingest.ErrInterrupted
		}
	}
}

// abandon defers the work of a run that nobody works on. Another daemon, or the next run,
// goes on with it.
func (f *Fleet) abandon(ctx context.Context, j *ingest.Job, id int64) error {
	end := f.clock.Now().Add(f.o.Grace) // the next run goes on with the rest
	for left := batch; left == batch && f.clock.Now().Before(end); {
		var err error
		if left, err = f.abandonSome(ctx, j, id); err != nil {
			return err
		}
	}
	var over *int64
	if err := f.one(ctx, &over, "run_over", account(j), j.Name); err == nil && *over == id {
		return f.endRun(ctx, j, f.state().runner, id, nil)
	}
	return nil
}

// abandonSome defers some of the work of a run that nobody works on, and returns how much.
func (f *Fleet) abandonSome(ctx context.Context, j *ingest.Job, id int64) (int, error) {
	var idle []*ingest.WorkReport
	err := f.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		idle, err = collect(ctx, tx, func(row pgx.CollectableRow) (*ingest.WorkReport, error) {
			w := &ingest.WorkReport{State: catalog.Deferred, ResumeAt: f.clock.Now(), Err: ingest.ErrInterrupted}
			return w, row.Scan(&w.Work, &w.Region, &w.Tally)
		}, sql("works_idle"), id, batch)
		if err != nil || len(idle) == 0 {
			return err
		}
		r, err := lockRun(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := r.begin(ctx, tx, f, j, max(r.works, len(idle))); err != nil {
			return err
		}
		for _, w := range idle {
			if err := r.endWork(ctx, tx, f, j.Name, w); err != nil {
				return err
			}
		}
		return exec(ctx, tx, "run_state", id, text(r.state), 0)
	})
	return len(idle), err
}
