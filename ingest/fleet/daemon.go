package fleet

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headroom-quota/headroom/ingest"
)

// start begins to work the queues of jobs. It tries until the database answers.
func (f *Fleet) start(ctx context.Context, jobs []*ingest.Job) error {
	f.alter((*state).renew)
	return f.persist(ctx, "begin to work the queue", func() error {
		client, err := f.newClient(jobs)
		if err != nil {
			return err
		}
		for _, j := range jobs { // River may have forgotten
			soon, cancel := context.WithTimeout(ctx, within)
			_, err := f.pool.Exec(soon, sql("queue_pause"), account(j), j.Name, queue(j))
			cancel()
			if err != nil {
				return err
			}
		}
		f.alter(func(s *state) { s.client = client })
		return client.Start(context.WithoutCancel(ctx))
	})
}

// parting is how long a process waits for the database when its grace has ended.
const parting = 500 * time.Millisecond

// halt stops the work of this process. Open calls are finished and their pages saved, unless
// that takes longer than the grace.
func (f *Fleet) halt() {
	s := f.state()
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), f.o.Grace)
	defer cancel()
	if s.client.Stop(ctx) == nil {
		return
	}
	f.log.Warn("some work did not stop in time; another daemon takes it over", "grace", f.o.Grace)
	s.abort()
	ctx, cancel = context.WithTimeout(context.Background(), parting)
	defer cancel()
	_ = s.client.StopAndCancel(ctx) // the process ends
}

// Run runs the jobs until the context ends. It waits while the database is down.
func (f *Fleet) Run(ctx context.Context) error {
	defer f.appear(ctx, nil)()
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { f.every(ctx, f.o.Timing.Mend, f.mend) })
	side.Go(func() { f.every(ctx, f.o.Timing.Gone/4, f.takeOver) })
	next := &sync.Map{} // times, by job and schedule; a reload keeps them
	for works := false; ctx.Err() == nil; {
		s := f.state()
		turn, end := context.WithCancel(ctx)
		var ticks sync.WaitGroup
		for _, j := range s.jobs { // also while the price book is too old
			ticks.Go(func() { f.ticks(turn, j, next, s.since) })
		}
		if works {
			f.halt()
		}
		if off := f.clock.off(); off != "" {
			f.awaitClock(ctx, off)
		}
		if works = f.start(ctx, s.jobs) == nil; works {
			f.log.Info("works in the fleet", "id", f.id, "jobs", len(s.jobs))
			select {
			case <-ctx.Done():
				f.setStatus(stopping)
				f.halt()
			case <-s.change:
			case <-f.clockOff(turn):
				f.halt()
				works = false
			case <-s.stale:
				f.halt()
				works = false
				f.awaitChange(ctx, s.change)
			}
		}
		end()
		ticks.Wait()
	}
	return nil
}

// disappear forgets this process. If the database is down, the others soon see that it is gone.
func (f *Fleet) disappear() {
	last, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	_, _ = f.pool.Exec(last, sql("daemon_end"), f.id)
}

func (f *Fleet) clockOff(ctx context.Context) <-chan struct{} {
	is := make(chan struct{})
	go func() {
		for f.clock.off() == "" {
			if f.clock.Sleep(ctx, f.o.Timing.Beat) != nil {
				return
			}
		}
		close(is)
	}()
	return is
}

func (f *Fleet) awaitClock(ctx context.Context, off string) {
	f.log.Error("this daemon does no work until its clock is right", "error", off)
	was := f.Status()
	for off != "" {
		f.setStatus(off)
		if f.clock.Sleep(ctx, f.o.Timing.Beat) != nil {
			break
		}
		off = f.clock.off()
	}
	f.setStatus(was)
}

// takeOver lets work go on whose daemon is gone. If that daemon comes back, the fence refuses what it saves.
// A daemon that does not reach the database cannot tell which others are gone. It also announces work of which
// nobody told, in one statement for all queues: River asks for each of them.
func (f *Fleet) takeOver(ctx context.Context) error {
	s := f.state()
	if s.soft.Err() != nil {
		return nil
	}
	queues, every := []string{}, []string{}
	for _, j := range s.jobs {
		if every = append(every, queue(j)); !j.Kind.Runs() {
			queues = append(queues, queue(j))
		}
	}
	type work struct{ Job, Work, From string }
	all, err := collect(ctx, f.pool, pgx.RowToStructByPos[work], sql("work_free"), queues, f.o.Timing.Gone, f.heardFor(f.o.Timing.Gone), every)
	for _, w := range all {
		if w.Job == "" { // nothing was freed
			continue
		}
		f.log.Warn("a daemon is gone; its work goes on here or elsewhere", "job", w.Job, "work", w.Work, "daemon", w.From)
	}
	return err
}

// awaitChange waits until a reload has read another price book.
func (f *Fleet) awaitChange(ctx context.Context, change <-chan struct{}) {
	f.log.Error("this daemon does no work until its price book is reloaded", "error", f.Status())
	for {
		if f.o.Stale != nil {
			f.o.Stale()
		}
		again, cancel := context.WithTimeout(ctx, time.Minute)
		select {
		case <-again.Done():
			cancel()
		case <-change:
			cancel()
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// Reload gives the process a new runner and new jobs. Steps end after their page, and go on
// with the new settings. Reload calls commit first, and changes nothing if that fails.
func (f *Fleet) Reload(_ context.Context, r *ingest.Runner, jobs []*ingest.Job, commit func() error) error {
	if err := commit(); err != nil {
		return err
	}
	f.alter(func(s *state) {
		s.runner, s.jobs, s.since, s.status = r, jobs, f.clock.Now(), Running
		s.stale = make(chan struct{})
		clear(s.vain) // the job may be gone
		close(s.change)
		s.change = make(chan struct{})
	})
	return nil
}

// Status returns whether this process works, or why it does not.
func (f *Fleet) Status() string { return f.state().status }

// wrote notes whether something of a job, such as the run, could be written. A database without room for it still takes
// beats.
func (f *Fleet) wrote(what string, j *ingest.Job, err error) {
	lacks, is := errors.AsType[*pgconn.PgError](err)
	f.alter(func(s *state) {
		if delete(s.vain, what+queue(j)); is && strings.HasPrefix(lacks.Code, "53") {
			s.vain[what+queue(j)] = "cannot " + what + " of " + j.Name + ": " + err.Error()
		}
	})
}

// shown returns the status for the table of daemons.
func (f *Fleet) shown() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.status == Running && len(f.now.vain) > 0 {
		return slices.Min(slices.Collect(maps.Values(f.now.vain)))
	}
	return f.now.status
}

func (f *Fleet) setStatus(status string) { f.alter(func(s *state) { s.status = status }) }

// every calls do again and again, with an interval of about d.
func (f *Fleet) every(ctx context.Context, d time.Duration, do func(context.Context) error) {
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil && f.tending.may() {
			f.log.Warn("cannot tend the fleet; trying again", "error", err)
		}
		if f.clock.Sleep(ctx, d-d/10+rand.N(d/5)) != nil {
			return
		}
	}
}

// beat says that this daemon is alive, and reads the database's clock.
func (f *Fleet) beat(ctx context.Context) (err error) {
	defer func() { f.hears(err == nil) }()
	ctx, cancel := context.WithTimeout(ctx, f.o.Timing.Beat)
	defer cancel()
	s := f.state()
	if s.only != nil {
		s.jobs = []*ingest.Job{s.only}
	}
	names, settings := []string{}, []string{}
	for _, j := range s.jobs {
		names, settings = append(names, j.Name), append(settings, settingsOf(j))
	}
	host, _ := os.Hostname()
	return f.clock.ask(ctx, sql("daemon_save"), f.id, host, os.Getpid(), f.o.Version, f.o.Revision(), f.shown(), f.clock.Skew().Microseconds(), names, f.spent.Load(), settings)
}

// hears notes whether the database answers.
func (f *Fleet) hears(answers bool) {
	f.alter(func(s *state) {
		now := f.clock.Now()
		if !answers {
			s.heard = time.Time{}
			return
		}
		if since := now.Sub(s.beaten); s.heard.IsZero() || since > f.o.Timing.Gone/2 || since < -MaxSkew { // this process was stopped, and the others may have been; or the clock was set back
			s.heard = now
		}
		s.beaten = now
	})
}

// heardFor reports whether the database has answered without a break for a time.
func (f *Fleet) heardFor(d time.Duration) bool {
	s, now := f.state(), f.clock.Now()
	return !s.heard.IsZero() && now.Sub(s.heard) >= d && now.Sub(s.beaten) < d/2
}

// longestNap is how long a daemon sleeps at most. The clock may have been set meanwhile.
const longestNap = time.Minute

// ticks inserts the runs of a job when they are due, and first the one that was missed. A job
// that never ran is owed from since, when this process got to know it: the database may answer
// late, and the job be due meanwhile.
func (f *Fleet) ticks(ctx context.Context, j *ingest.Job, known *sync.Map, since time.Time) {
	key := queue(j) + " " + j.Schedule().String()
	kept, _ := known.Load(key)
	next, is := kept.(time.Time)
	if !is {
		var last time.Time
		err := f.persist(ctx, "read when "+j.Name+" ran last", func() (err error) {
			last, err = f.lastTick(ctx, j)
			return err
		})
		if err != nil {
			return
		}
		if last.IsZero() {
			last = since
		}
		now := f.clock.Now()
		if f.tick(ctx, j, j.Missed(last, now)); ctx.Err() != nil {
			return // a reload, after which it is still missed
		}
		next = j.Schedule().Next(now)
	}
	for {
		now := f.clock.Now()
		if soon := j.Schedule().Next(now); soon.Before(next) { // the database's clock was set back
			next = soon
		}
		known.Store(key, next)
		if wait := next.Sub(now); wait > 0 {
			if f.clock.Sleep(ctx, min(wait, longestNap)) != nil {
				return
			}
			continue
		}
		at := next
		if now.Sub(at) > longestNap { // the process, or the database, was not there
			at = j.Missed(next.Add(-1), now)
		}
		if f.tick(ctx, j, at); ctx.Err() != nil {
			return
		}
		next = j.Schedule().Next(now)
	}
}

// lastTick returns the last time of the schedule that was run, here or by a single daemon.
func (f *Fleet) lastTick(ctx context.Context, j *ingest.Job) (time.Time, error) {
	last, err := f.state().runner.LastScheduled(ctx, j)
	if err != nil {
		return last, err
	}
	var here *time.Time
	if err := f.one(ctx, &here, "run_last", account(j), j.Name, f.clock.Now()); err != nil {
		return last, err
	}
	if here != nil && here.After(last) {
		last = *here
	}
	return last, nil
}

// tick inserts the run for a time of the schedule. It tries until it has succeeded.
func (f *Fleet) tick(ctx context.Context, j *ingest.Job, at time.Time) {
	if at.IsZero() {
		return
	}
	start := at
	if j.Jitter > 0 {
		start = at.Add(rand.N(j.Jitter))
	}
	_ = f.persist(ctx, "insert the run of "+j.Name, func() error { // else it was told to stop
		run, err := f.insert(ctx, j, ingest.Occasion{Scheduled: at}, start)
		f.wrote("insert the run", j, err)
		if err == nil && run != 0 {
			f.log.Debug("inserted a run", "job", j.Name, "scheduled", at, "run", run)
		}
		return err
	})
	idle := f.Status() != Running || errors.Is(f.paused(ctx, j), ErrPaused)
	if idle && ctx.Err() == nil { // old data is deleted in time even if nobody makes the run
		_ = f.state().runner.Join(j, ingest.State{}, nil).After() // it logs its error, and the run does it again
	}
}

// toMend returns the jobs that need mending. An idle daemon asks nothing more.
func (f *Fleet) toMend(ctx context.Context, jobs []*ingest.Job) ([]*ingest.Job, error) {
	var accounts, names []string
	for _, j := range jobs {
		accounts, names = append(accounts, account(j)), append(names, j.Name)
	}
	type job struct{ Account, Name string }
	due, err := collect(ctx, f.pool, pgx.RowToStructByPos[job], sql("jobs_to_mend"), accounts, names, f.o.Timing.Mend)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j *ingest.Job) bool { return !slices.Contains(due, job{account(j), j.Name}) }), nil
}

// mend lets work go on whose block was lifted, and repairs what a killed process left.
func (f *Fleet) mend(ctx context.Context) error {
	s := f.state()
	jobs, all := f.toMend(ctx, s.jobs)
	for _, j := range jobs {
		all = errors.Join(all, f.unblock(ctx, j, s.runner))
		// Some work should go on and still sleeps: it was given back with the time of an earlier run at
		// the moment when a later one joined it.
		all = errors.Join(all, f.wake(ctx, sql("works_late"), account(j), j.Name, f.o.Timing.Mend, batch))
		var over int64
		is, err := found(f.one(ctx, &over, "run_over", account(j), j.Name))
		if is && f.state().soft.Err() == nil {
			err = f.endRun(ctx, j, s.runner, over, nil)
		}
		if f.state().soft.Err() == nil {
			err = errors.Join(err, f.adopt(ctx, j, s.runner))
		}
		all = errors.Join(all, err, f.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			type lost struct{ Work, Region string }
			works, err := collect(ctx, tx, pgx.RowToStructByPos[lost], sql("works_lost"), account(j), j.Name, f.o.Timing.Mend, batch)
			if err != nil {
				return err
			}
			q, now := &queued{}, f.clock.Now()
			for _, w := range works {
				q.add(w.Work, w.Region, now)
			}
			return f.enqueue(ctx, tx, j, q)
		}))
	}
	return errors.Join(all, f.forget(ctx))
}

// forget deletes old rows, once an hour.
func (f *Fleet) forget(ctx context.Context) error {
	now := f.clock.Now()
	if now.Sub(f.forgot) < time.Hour {
		return nil
	}
	_, err := f.pool.Exec(ctx, sql("daemons_forget"))
	_, old := f.pool.Exec(ctx, sql("forget"), now.Add(-historyFor))
	if err = errors.Join(err, old); err == nil {
		f.forgot = now
	}
	return err
}

// historyFor is how long the rows of runs are kept.
const historyFor = 90 * 24 * time.Hour

// unblock wakes the work of a job that a block deferred which has been lifted.
func (f *Fleet) unblock(ctx context.Context, j *ingest.Job, runner *ingest.Runner) error {
	var pools []string
	err := f.one(ctx, &pools, "works_blocked", account(j), j.Name)
	if err != nil || len(pools) == 0 {
		return err
	}
	open := runner.Opened(ctx, j)
	for _, pool := range pools {
		if open(pool) {
			f.log.Info("a block was lifted", "job", j.Name, "pool", pool)
			err = errors.Join(err, f.wake(ctx, sql("works_wake"), account(j), j.Name, pool, batch))
		}
	}
	return err
}

// wake makes the jobs available that a statement returns, a batch at a time.
func (f *Fleet) wake(ctx context.Context, statement string, args ...any) error {
	for woken := batch; woken == batch; {
		err := f.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			woken, err = wakeSome(ctx, tx, statement, args...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func wakeSome(ctx context.Context, tx pgx.Tx, statement string, args ...any) (int, error) {
	ids, err := collect(ctx, tx, pgx.RowTo[int64], statement, args...)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return len(ids), exec(ctx, tx, "jobs_wake", ids)
}
