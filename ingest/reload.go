package ingest

import "context"

// change is another runner and other jobs for a daemon.
type change struct {
	runner *Runner
	jobs   []*Job
	commit func() error
	taken  chan<- error
}

// Reload makes a daemon that runs go by another runner and other jobs. A run under way
// ends with what it began with, and its job is not run again before that. Times that
// were owed stay owed; what is due by a schedule that changed is what it would be if the
// daemon had been started now.
//
// Commit is called when all else has succeeded, and its error is that of Reload: then,
// as with any error, the daemon goes on as it was.
func (d *Daemon) Reload(ctx context.Context, r *Runner, jobs []*Job, commit func() error) error {
	taken := make(chan error, 1)
	select {
	case d.changes <- change{r, jobs, commit, taken}:
		return <-taken
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// change takes a change up, as a whole or not at all.
func (d *Daemon) change(ctx context.Context, to change) error {
	var tasks []*task
	for _, j := range to.jobs {
		t, err := d.succeed(ctx, j, to.runner)
		if err != nil {
			return err
		}
		tasks = append(tasks, t)
	}
	if err := to.commit(); err != nil {
		return err
	}
	d.runner, d.tasks = to.runner, tasks
	return nil
}

// succeed returns the task of a job that takes the place of the one of the same name. If
// that one runs, the new one is loaded again when it has ended.
func (d *Daemon) succeed(ctx context.Context, j *Job, r *Runner) (t *task, err error) {
	t = &task{job: j}
	old := d.task(j.Name)
	if old == nil || old.tick.After(r.clock.Now()) && !old.job.sameTimes(j) {
		return t, t.load(ctx, r)
	}
	t.tick, t.start = old.tick, old.start
	t.resume, err = r.ResumeAt(ctx, j, nil)
	return t, err
}

// sameTimes reports whether two jobs are due at the same times.
func (j *Job) sameTimes(k *Job) bool {
	return j.schedule.String() == k.schedule.String() && j.Jitter == k.Jitter && j.Misfire == k.Misfire && j.MaxLateness == k.MaxLateness
}

// task finds the task of a job by its name; nil is none.
func (d *Daemon) task(name string) *task {
	for _, t := range d.tasks {
		if t.job.Name == name {
			return t
		}
	}
	return nil
}
