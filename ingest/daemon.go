package ingest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Daemon runs jobs when they are due. It resumes deferred work at the time that the ledger
// named, or soon after a block is lifted. A job never runs twice at once.
type Daemon struct {
	runner  *Runner
	tasks   []*task
	running map[string]bool            // by job; a reload may have removed the job
	changes chan func(context.Context) // see Reload
	// done is called for each run that has ended.
	done func(*Job, *Report, error)
}

// task is a job with the times of its next runs.
type task struct {
	job    *Job
	tick   time.Time // when the job is due next
	start  time.Time // the same, with the jitter
	resume time.Time // when deferred work can resume; zero without deferred work
	broken bool      // its last run broke off, so it waits for its time
}

// NewDaemon returns a daemon for jobs. It calls done for each run that has ended. Done may
// be nil.
func NewDaemon(r *Runner, jobs []*Job, done func(*Job, *Report, error)) *Daemon {
	d := &Daemon{runner: r, done: done, running: map[string]bool{}, changes: make(chan func(context.Context))}
	if d.done == nil {
		d.done = func(*Job, *Report, error) {}
	}
	for _, j := range jobs {
		d.tasks = append(d.tasks, &task{job: j})
	}
	return d
}

// Run runs the jobs until the context ends, and returns when the last run has ended. It
// returns an error if the catalog cannot be read, or if the ledger has seen a newer price
// book ([quota.ErrStaleBook]). After a restart the program may read that book, too.
func (d *Daemon) Run(ctx context.Context) error {
	if err := d.load(ctx); err != nil {
		return err
	}
	ended := make(chan turn)
	defer func() {
		for range d.running {
			<-ended
		}
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for {
		next, at := d.next()
		ready, rest := d.wait(ctx, next, at)
		select {
		case t := <-ended:
			rest()
			if err := d.reschedule(ctx, t); err != nil && ctx.Err() == nil {
				return err
			}
		case change := <-d.changes:
			rest()
			change(ctx)
		case <-ready:
			rest()
			if d.runner.clock.Now().Before(at) {
				d.checkBlocks(ctx)
				d.checkClock()
				continue
			}
			runner := d.runner // a run keeps its runner until it ends
			why := next.begin(runner.clock.Now(), runner)
			d.running[next.job.Name] = true
			go func() { ended <- d.make(ctx, runner, next, why) }()
		case <-ctx.Done():
			rest()
			return nil
		}
	}
}

// wait returns a channel that is closed when a task is due, or after longestNap. The
// returned function ends the wait.
func (d *Daemon) wait(ctx context.Context, next *task, at time.Time) (ready chan struct{}, rest func()) {
	if next == nil {
		return nil, func() {}
	}
	nap, wake := context.WithCancel(ctx)
	ready = make(chan struct{})
	clock := d.runner.clock
	go func() {
		if now := clock.Now(); now.Before(at) && clock.Sleep(nap, min(at.Sub(now), longestNap)) != nil {
			return
		}
		close(ready)
	}()
	return ready, wake
}

// longestNap is how long the daemon sleeps at most. After that it checks the clock, which
// may have been set meanwhile, and blocks, which may have been lifted.
const longestNap = time.Minute

// checkBlocks advances work whose block was lifted. It ignores errors, because it soon looks
// again.
func (d *Daemon) checkBlocks(ctx context.Context) {
	for _, t := range d.tasks {
		if t.resume.IsZero() || t.broken || d.running[t.job.Name] {
			continue
		}
		if at, err := d.runner.ResumeAt(ctx, t.job, nil); err == nil && !at.IsZero() && at.Before(t.resume) {
			t.resume = at
		}
	}
}

// checkClock finds the next times anew if the clock was set back behind one. Work that was completed after such a time is
// not done again.
func (d *Daemon) checkClock() {
	now := d.runner.clock.Now()
	for _, t := range d.tasks {
		if t.job.schedule.Next(now).Before(t.tick) && !d.running[t.job.Name] {
			t.setNext(now, d.runner)
		}
	}
}

// Simulate is Run on a simulated clock, until a time. It makes one run after the other.
func (d *Daemon) Simulate(ctx context.Context, clock *quota.SimClock, until time.Time) error {
	if err := d.load(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		next, at := d.next()
		if next == nil || at.After(until) {
			clock.Set(until)
			return nil
		}
		if at.After(clock.Now()) {
			clock.Set(at)
		}
		if err := d.reschedule(ctx, d.make(ctx, d.runner, next, next.begin(clock.Now(), d.runner))); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// load finds runs that were missed, and work that was deferred, while no daemon ran.
func (d *Daemon) load(ctx context.Context) error {
	for _, t := range d.tasks {
		if err := t.load(ctx, d.runner); err != nil {
			return err
		}
	}
	return nil
}

func (t *task) load(ctx context.Context, r *Runner) (err error) {
	now := r.clock.Now()
	last, err := r.LastScheduled(ctx, t.job)
	if err != nil {
		return err
	}
	if !last.IsZero() {
		t.tick = t.job.Missed(last, now)
		t.start = t.tick
	}
	if t.tick.IsZero() {
		switch broken, err := r.broken(ctx, t.job); {
		case err != nil:
			return err
		case broken && !last.IsZero():
			t.tick, t.start = last, now
		default:
			t.setNext(now, r)
		}
	}
	t.resume, err = r.ResumeAt(ctx, t.job, nil)
	return err
}

// Missed returns the last time after since, up to now, at which the job was due. It returns
// zero if the job was not due, or if it skips missed runs.
func (j *Job) Missed(since, now time.Time) (last time.Time) {
	if j.Misfire != Once {
		return last
	}
	if from := now.Add(-j.MaxLateness); since.Before(from) {
		since = from
	}
	for due := j.schedule.Next(since); !due.After(now); due = j.schedule.Next(due) {
		last = due
	}
	return last
}

// next returns the task that is due first, and when.
func (d *Daemon) next() (first *task, at time.Time) {
	for _, t := range d.tasks {
		if d.running[t.job.Name] {
			continue
		}
		turn := t.start
		if !t.resume.IsZero() && t.resume.Before(turn) {
			turn = t.resume
		}
		if first == nil || turn.Before(at) {
			first, at = t, turn
		}
	}
	return first, at
}

// begin returns why the task runs now, and sets its next time.
func (t *task) begin(now time.Time, r *Runner) Occasion {
	if now.Before(t.start) {
		t.resume = time.Time{}
		return Occasion{Deferred: true} // the time of the schedule is still to come
	}
	why := Occasion{Scheduled: t.tick}
	t.setNext(now, r)
	return why
}

func (t *task) setNext(now time.Time, r *Runner) {
	t.tick = t.job.schedule.Next(now)
	t.start = t.tick.Add(r.jitter(t.job.Jitter))
}

// reschedule schedules a task whose run has ended. A time that came meanwhile was missed. So
// was the time of a run that could not start, for example because another process runs the
// job. Deferred work resumes at its time.
func (d *Daemon) reschedule(ctx context.Context, done turn) (err error) {
	t, now := d.task(done.task.job.Name), d.runner.clock.Now()
	delete(d.running, done.task.job.Name)
	switch t {
	case nil: // a reload removed the job
		return nil
	case done.task:
	default: // a reload replaced the task
		return t.load(ctx, d.runner)
	}
	if errors.Is(done.err, quota.ErrStaleBook) {
		return done.err
	}
	if t.tick.Before(now) {
		if missed := t.job.Missed(t.tick.Add(-1), now); !missed.IsZero() {
			t.tick, t.start = missed, missed
		} else {
			t.setNext(now, d.runner)
		}
	}
	again := now.Add(recovery)
	due := done.why.Scheduled
	if done.err != nil && !due.IsZero() && t.job.Misfire == Once && again.Sub(due) <= t.job.MaxLateness && again.Before(t.start) {
		t.tick, t.start = due, again
	}
	t.broken = done.err != nil
	t.resume, err = d.runner.ResumeAt(ctx, t.job, nil)
	if !t.resume.IsZero() && (!t.resume.After(done.began) || done.err != nil && !t.resume.After(now)) { // the run could not record how it ended
		t.resume = again
	}
	return err
}

// turn is a run of a task that has ended. An error means that no run was made, or that it
// broke off because of the catalog, another process, or an old price book.
type turn struct {
	task  *task
	why   Occasion
	began time.Time
	err   error
}

// make makes one run. An error of the run does not end the daemon.
func (d *Daemon) make(ctx context.Context, r *Runner, t *task, why Occasion) turn {
	began := r.clock.Now()
	rep, err := r.Run(ctx, t.job, why)
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrInterrupted):
		r.log.Info("no run", "job", t.job.Name, "error", err)
	case err != nil:
		r.log.Warn("no run", "job", t.job.Name, "error", err)
	}
	d.done(t.job, rep, err)
	if err == nil && isAny(rep.Err, errCatalog, ErrLostLock, quota.ErrStaleBook) {
		err = rep.Err
	}
	return turn{t, why, began, err}
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
	case d.changes <- func(ctx context.Context) { taken <- d.change(ctx, r, jobs, commit) }:
		return <-taken
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// change applies a change as a whole, or not at all.
func (d *Daemon) change(ctx context.Context, r *Runner, jobs []*Job, commit func() error) error {
	var tasks []*task
	for _, j := range jobs {
		t, err := d.successor(ctx, j, r)
		if err != nil {
			return err
		}
		tasks = append(tasks, t)
	}
	if err := commit(); err != nil {
		return err
	}
	d.runner, d.tasks = r, tasks
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

func (j *Job) sameTimes(k *Job) bool {
	return j.schedule.String() == k.schedule.String() && j.Jitter == k.Jitter && j.Misfire == k.Misfire && j.MaxLateness == k.MaxLateness
}

func (d *Daemon) task(name string) *task {
	if i := slices.IndexFunc(d.tasks, func(t *task) bool { return t.job.Name == name }); i >= 0 {
		return d.tasks[i]
	}
	return nil
}
