package ingest

import "context"

// change is a new runner and new jobs for a daemon.
type change struct {
	runner *Runner
	jobs   []*Job
	commit func() error
	taken  chan<- error
}

// Reload gives a running daemon a new runner and new jobs. A run in progress keeps its
// runner, and its job does not run again before it ends. Runs that are overdue stay
// overdue. A job with a new schedule is due as if the daemon had just been started.
//
// Reload calls commit when everything else has succeeded, and returns its error. After any
// error the daemon continues as before.
func (d *Daemon) Reload(ctx context.Context, r *Runner, jobs []*Job, commit func() error) error {
	taken := make(chan error, 1)
	select {
	case d.changes <- change{r, jobs, commit, taken}:
		return <-taken
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// change applies a change as a whole, or not at all.
func (d *Daemon) change(ctx context.Context, to change) error {
	var tasks []*task
	for _, j := range to.jobs {
		t, err := d.successor(ctx, j, to.runner)
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

// successor returns the task of a job that replaces the task of the same name. If the old one
// is running, the new one is loaded again when it ends.
func (d *Daemon) successor(ctx context.Context, j *Job, r *Runner) (t *task, err error) {
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

// task finds the task of a job by its name, or returns nil.
func (d *Daemon) task(name string) *task {
	for _, t := range d.tasks {
		if t.job.Name == name {
			return t
		}
	}
	return nil
}
