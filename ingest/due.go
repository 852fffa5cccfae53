package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// LastScheduled returns when the last scheduled run of a job was due, or zero. It ignores
// runs for a time in the future, which a clock that was ahead may have left.
func (r *Runner) LastScheduled(ctx context.Context, j *Job) (time.Time, error) {
	runs, err := r.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 1, Due: r.clock.Now(), Bare: true})
	if err != nil || len(runs) == 0 {
		return time.Time{}, wrap("read the runs of "+j.Name, err)
	}
	return runs[0].Scheduled, nil
}

// wrap says what failed, if anything did.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Due returns the scheduled run that a job should make now, and whether there is one. It
// is the run for the latest time of the schedule, if no run was made for that time, or if
// its run broke off. Due is for programs that cron starts. Two programs may ask at the same
// time: a run skips work that was completed since its scheduled time.
func (r *Runner) Due(ctx context.Context, j *Job) (why Occasion, due bool, err error) {
	why, _, due, err = r.due(ctx, j)
	return why, due, err
}

// Overdue returns the first time of the schedule for which a job should have made a run and
// has not, and whether there is one. The time is zero if the job never had a scheduled run.
func (r *Runner) Overdue(ctx context.Context, j *Job) (first time.Time, due bool, err error) {
	why, last, due, err := r.due(ctx, j)
	if first = last; !last.IsZero() && why.Scheduled.After(last) {
		first = j.schedule.Next(last)
	}
	return first, due, err
}

// due is [Runner.Due], with the last scheduled time.
func (r *Runner) due(ctx context.Context, j *Job) (why Occasion, last time.Time, due bool, err error) {
	if last, err = r.LastScheduled(ctx, j); err != nil {
		return why, last, false, err
	}
	if at := j.schedule.Last(r.clock.Now()); at.After(last) {
		return Occasion{Scheduled: at}, last, true, nil
	}
	was, err := r.broken(ctx, j)
	return Occasion{Scheduled: last}, last, was && !last.IsZero(), err
}

// broken reports whether the job's last run broke off. Either its process was killed, or
// still runs, which the lock decides. Or the run failed, the time to retry has come, and no
// cursor has that time because nothing could be saved.
func (r *Runner) broken(ctx context.Context, j *Job) (bool, error) {
	runs, err := r.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 1, Made: true, Bare: true})
	if err != nil || len(runs) == 0 {
		return false, wrap("read the runs of "+j.Name, err)
	}
	switch last := runs[0]; {
	case last.State == catalog.Running:
		return true, nil
	case last.State != catalog.Failed || last.ResumeAt.IsZero() || last.ResumeAt.After(r.clock.Now()):
		return false, nil
	}
	deferred, err := r.ResumeAt(ctx, j, func(string) bool { return false }) // whether there is work, not when
	return deferred.IsZero(), err
}
