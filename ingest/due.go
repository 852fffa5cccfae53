package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// LastScheduled returns when the last scheduled run of a job was due, or zero. Runs of
// a time that is still to come, by a clock that was ahead, do not count.
func (r *Runner) LastScheduled(ctx context.Context, j *Job) (time.Time, error) {
	const page = 100
	now := r.clock.Now()
	for before := int64(0); ; {
		runs, err := r.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Before: before, Limit: page})
		if err != nil {
			return time.Time{}, fmt.Errorf("read the runs of %s: %w", j.Name, err)
		}
		for _, run := range runs {
			if !run.Scheduled.IsZero() && !run.Scheduled.After(now) {
				return run.Scheduled, nil
			}
			before = run.ID
		}
		if len(runs) < page {
			return time.Time{}, nil
		}
	}
}

// Due returns the scheduled run that a job is to have now, and whether there is one:
// for the latest time at which it was due, if no run was made for that, or if that was
// broken off. It is for programs that are started now and then and ask what to do, as cron
// starts them. Another may ask at the same time: a run leaves out what was completed
// since its time.
func (r *Runner) Due(ctx context.Context, j *Job) (why Occasion, due bool, err error) {
	last, err := r.LastScheduled(ctx, j)
	if err != nil {
		return why, false, err
	}
	if at := j.schedule.Last(r.clock.Now()); at.After(last) {
		return Occasion{Scheduled: at}, true, nil
	}
	was, err := r.broken(ctx, j)
	return Occasion{Scheduled: last}, was && !last.IsZero(), err
}

// broken reports whether the job's last run was broken off. Its process was killed, or
// is still at it, which the lock will tell; or it failed, the time to try again has
// come, and no cursor says so: nothing could be saved.
func (r *Runner) broken(ctx context.Context, j *Job) (bool, error) {
	runs, err := r.catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("read the runs of %s: %w", j.Name, err)
	}
	if len(runs) == 0 {
		return false, nil
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
