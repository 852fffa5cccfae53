package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Daemon runs jobs when they are due, and goes on with what was deferred at the
// time that the ledger named, or soon after a block was lifted. A job is never run twice
// at once.
type Daemon struct {
	runner  *Runner
	tasks   []*task
	running map[string]bool // by job: also one that the daemon has no more
	changes chan change     // see Reload
	// done is told of each run that has ended; nil is nobody.
	done func(*Job, *Report, error)
}

// task is a job, and when it is its turn.
type task struct {
	job    *Job
	tick   time.Time // when it is due next
	start  time.Time // the same with the jitter
	resume time.Time // when what was deferred can go on; zero is never
	broken bool      // its last run was broken off: it waits for its time
}

// NewDaemon returns a daemon for jobs; done may be nil.
func NewDaemon(r *Runner, jobs []*Job, done func(*Job, *Report, error)) *Daemon {
	d := &Daemon{runner: r, done: done, running: map[string]bool{}, changes: make(chan change)}
	if d.done == nil {
		d.done = func(*Job, *Report, error) {}
	}
	for _, j := range jobs {
		d.tasks = append(d.tasks, &task{job: j})
	}
	return d
}

// Run runs the jobs until the context ends, and returns when the last run has. It gives
// up when the catalog cannot be read, and when the ledger knows a newer price book
// ([quota.ErrStaleBook]): started again, it may find that too.
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
		ready, rest := d.alarm(ctx, next, at)
		select {
		case t := <-ended:
			rest()
			if err := d.settle(ctx, t); err != nil && ctx.Err() == nil {
				return err
			}
		case c := <-d.changes:
			rest()
			c.taken <- d.change(ctx, c)
		case <-ready:
			rest()
			if d.runner.clock.Now().Before(at) {
				d.look(ctx)
				continue
			}
			runner := d.runner // a run ends with the one it began with
			why := next.begin(runner.clock.Now(), runner)
			d.running[next.job.Name] = true
			go func() { ended <- d.make(ctx, runner, next, why) }()
		case <-ctx.Done():
			rest()
			return nil
		}
	}
}

// alarm returns a channel that is closed when it is a task's turn, or time to look
// whether it is, and what ends the waiting.
func (d *Daemon) alarm(ctx context.Context, next *task, at time.Time) (ready chan struct{}, rest func()) {
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

// longestNap is how long the daemon sleeps before it looks at the clock again, which
// may have been set meanwhile, and at blocks, which may have been lifted.
const longestNap = time.Minute

// look brings work forward whose block was lifted. What cannot be read now, the next
// look may find.
func (d *Daemon) look(ctx context.Context) {
	for _, t := range d.tasks {
		if t.resume.IsZero() || t.broken || d.running[t.job.Name] {
			continue
		}
		if at, err := d.runner.ResumeAt(ctx, t.job, nil); err == nil && !at.IsZero() && at.Before(t.resume) {
			t.resume = at
		}
	}
}

// Simulate is Run on a clock that is moved, until a time: one run after the other.
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
		if err := d.settle(ctx, d.make(ctx, d.runner, next, next.begin(clock.Now(), d.runner))); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// load finds out what was missed and what was deferred while nobody was up.
func (d *Daemon) load(ctx context.Context) error {
	for _, t := range d.tasks {
		if err := t.load(ctx, d.runner); err != nil {
			return err
		}
	}
	return nil
}

// load finds out when it is the task's turn.
func (t *task) load(ctx context.Context, r *Runner) (err error) {
	now := r.clock.Now()
	last, err := r.LastScheduled(ctx, t.job)
	if err != nil {
		return err
	}
	if !last.IsZero() {
		t.tick = t.job.missed(last, now)
		t.start = t.tick
	}
	if t.tick.IsZero() {
		if err := t.revive(ctx, last, now, r); err != nil {
			return err
		}
	}
	t.resume, err = r.ResumeAt(ctx, t.job, nil)
	return err
}

// revive makes it the task's turn if its last run was broken off; else it waits for the
// next time.
func (t *task) revive(ctx context.Context, last, now time.Time, r *Runner) error {
	was, err := r.broken(ctx, t.job)
	if err != nil {
		return err
	}
	if !was || last.IsZero() {
		t.wind(now, r)
		return nil
	}
	t.tick, t.start = last, now
	return nil
}

// missed returns the last time after one, until now, at which the job was due, if that
// is to be made up for.
func (j *Job) missed(since, now time.Time) (last time.Time) {
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

// next returns the task whose turn comes first, and when.
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

// begin says why the task runs now, and sets its next time.
func (t *task) begin(now time.Time, r *Runner) Occasion {
	if now.Before(t.start) {
		t.resume = time.Time{}
		return Occasion{Deferred: true} // not at a time of the schedule: that one is to come
	}
	why := Occasion{Scheduled: t.tick}
	t.wind(now, r)
	return why
}

// wind sets the next time that the job is due after now.
func (t *task) wind(now time.Time, r *Runner) {
	t.tick = t.job.schedule.Next(now)
	t.start = t.tick.Add(r.jitter(t.job.Jitter))
}

// settle takes up a task whose run has ended. What came due meanwhile was missed, and
// so was the time of a run that could not begin, as where another process has the
// job. What was deferred goes on at its time.
func (d *Daemon) settle(ctx context.Context, done turn) (err error) {
	t, now := d.task(done.task.job.Name), d.runner.clock.Now()
	delete(d.running, done.task.job.Name)
	switch t {
	case nil: // the job is no more
		return nil
	case done.task:
	default: // it is another one of that name now
		return t.load(ctx, d.runner)
	}
	if errors.Is(done.err, quota.ErrStaleBook) {
		return done.err
	}
	if t.tick.Before(now) {
		if missed := t.job.missed(t.tick.Add(-1), now); !missed.IsZero() {
			t.tick, t.start = missed, missed
		} else {
			t.wind(now, d.runner)
		}
	}
	again := now.Add(recovery)
	due := done.why.Scheduled
	if done.err != nil && !due.IsZero() && t.job.Misfire == Once && again.Sub(due) <= t.job.MaxLateness && again.Before(t.start) {
		t.tick, t.start = due, again
	}
	t.broken = done.err != nil
	t.resume, err = d.runner.ResumeAt(ctx, t.job, nil)
	if !t.resume.IsZero() && !t.resume.After(now) { // the run could not even note how it ended
		t.resume = again
	}
	return err
}

// turn is a run of a task that is over. Its error says that there was none, or that
// it was broken off: by the catalog, by another process, by a price book that is old.
type turn struct {
	task *task
	why  Occasion
	err  error
}

// make makes one run. Its error does not end the daemon.
func (d *Daemon) make(ctx context.Context, r *Runner, t *task, why Occasion) turn {
	rep, err := r.Run(ctx, t.job, why)
	switch {
	case errors.Is(err, ErrHeld), errors.Is(err, ErrInterrupted):
		r.log.Info("no run", "job", t.job.Name, "error", err)
	case err != nil:
		r.log.Warn("no run", "job", t.job.Name, "error", err)
	}
	d.done(t.job, rep, err)
	var broken *catalogError
	if err == nil && (errors.As(rep.Err, &broken) || errors.Is(rep.Err, ErrLostLock) || errors.Is(rep.Err, quota.ErrStaleBook)) {
		err = rep.Err
	}
	return turn{t, why, err}
}
