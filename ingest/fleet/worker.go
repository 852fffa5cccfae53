package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// errFenced says that another worker has taken the job over. It is a plain error to River:
// River applies results by the id of the job, and would complete, cancel or snooze the job of
// its new owner.
var errFenced = errors.New("another worker has taken the job over")

// errBroken says that this process could not save a page a moment ago, so that each further
// call would be paid for and lost, or that its ledger does not answer.
var errBroken = errors.New("the catalog or the ledger did not answer a moment ago")

// mostOutages is how many machines try a page whose ledger does not answer.
const mostOutages = 3

// brake is how long a process makes no calls after that.
const brake = 30 * time.Second

type worker struct {
	river.WorkerDefaults[Args]
	f *Fleet
}

// slice is one attempt of River's job.
type slice struct {
	f      *Fleet
	job    *ingest.Job
	runner *ingest.Runner
	river  *river.Job[Args]
	asked  []time.Time // other times that it may have been attempted at: see hold
	until  time.Time

	// These are set by next.
	unit   *unit          // to work on
	over   int64          // a run whose work has ended
	cursor catalog.Cursor // of work that no run has
	done   bool           // River's job is complete
}

func (w *worker) Work(ctx context.Context, job *river.Job[Args]) error {
	err := w.f.work(ctx, job)
	if err != nil && !errors.As(err, new(*rivertype.JobSnoozeError)) && !errors.Is(err, errBroken) {
		w.f.log.Warn("work is tried again", "job", job.Args.Job, "work", job.Args.Work, "error", err)
	}
	return err
}

func (f *Fleet) work(ctx context.Context, job *river.Job[Args]) error {
	s := &slice{f: f, river: job, until: f.clock.Now().Add(f.o.Timing.Slice)}
	if s.job, s.runner = f.job(job.Args); s.job == nil {
		return river.JobSnooze(time.Minute) // a reload removed the job, and its queue soon ends
	}
	if f.broken() {
		return errBroken
	}
	for {
		if err := s.next(ctx); err != nil {
			return err
		}
		var err error
		switch {
		case s.done:
			return nil
		case s.unit != nil:
			err = s.step(ctx)
		case s.over != 0:
			err = f.endRun(ctx, s.job, s.runner, s.over, s.fence)
		default:
			err = s.resume(ctx)
		}
		if err != nil {
			return err
		}
		if f.state().soft.Err() != nil || !f.clock.Now().Before(s.until) {
			return s.rest(ctx, f.clock.Now(), "")
		}
	}
}

// change runs a transaction that ends if the job was taken over.
func (s *slice) change(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return s.f.behind(context.WithoutCancel(ctx), s.fence, do)
}

// fence fails if another worker has the job, and keeps others from taking it until the
// transaction ends.
func (s *slice) fence(b *pgx.Batch) {
	b.Queue(sql("fence"), s.river.ID, s.river.Attempt, s.river.AttemptedAt, s.f.id).QueryRow(func(row pgx.Row) error {
		var id int64
		if err := row.Scan(&id); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return errFenced
	})
}

// key are the columns that name the unit of work.
func (s *slice) key() (account, job, work string) {
	return s.river.Args.Account, s.river.Args.Job, s.river.Args.Work
}

// next finds what is to be done: work of a run, the end of a run, or deferred work that can
// resume. If there is nothing, it completes the job.
func (s *slice) next(ctx context.Context) error {
	account, job, work := s.key()
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		s.unit, s.over, s.done = nil, 0, false
		if s.cursor, err = s.f.catalog.In(tx).Cursor(ctx, job, work); err != nil {
			return err
		}
		if s.unit, err = s.open(ctx, tx); err != nil {
			return err
		}
		if s.unit != nil {
			return exec(ctx, tx, "work_hold", account, job, work, s.f.id, s.f.heardFor(s.f.o.Timing.Gone), s.f.o.Timing.Gone)
		}
		err = tx.QueryRow(ctx, sql("run_over"), account, job).Scan(&s.over)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if !s.cursor.ResumeAt.IsZero() && (s.runner.Find(s.job, s.cursor) != nil || s.f.differ(ctx, tx, s.job)) {
			return nil
		}
		if err := exec(ctx, tx, "work_rest", account, job, work, nil, "", ""); err != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, s.river)
		s.done = err == nil
		return err
	})
}

// resume begins a run of the deferred work that can resume, or waits for its time.
func (s *slice) resume(ctx context.Context) error {
	now, w := s.f.clock.Now(), s.runner.Find(s.job, s.cursor)
	if w == nil {
		return s.rest(ctx, now.Add(elsewhere), givenBack)
	}
	if at := w.ResumeAt(now, s.runner.Opened(ctx, s.job)); at.After(now) {
		return s.restFor(ctx, at, "deferred", s.cursor.BlockedOn)
	}
	run, err := s.f.insert(ctx, s.job, ingest.Occasion{Deferred: true}, now)
	if err == nil && run == 0 { // another process inserts a run that will have this work
		return s.rest(ctx, now.Add(time.Second), "")
	}
	return err
}

// rest gives the job back until a time.
func (s *slice) rest(ctx context.Context, at time.Time, why string) error {
	return s.restFor(ctx, at, why, "")
}

func (s *slice) restFor(ctx context.Context, at time.Time, why, blockedOn string) error {
	account, job, work := s.key()
	err := s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if s.unit != nil {
			if err := s.unit.save(ctx, tx); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, sql("work_rest"), account, job, work, at, why, blockedOn)
		if err != nil || s.unit != nil {
			return err
		}
		// From here on a run that joins this work waits for its row, and sees the time above. A
		// run that joined it since it was read must not wait that long.
		joined := false
		if err := tx.QueryRow(ctx, sql("unit_open"), account, job, work).Scan(&joined); err != nil || !joined {
			return err
		}
		at = s.f.clock.Now()
		return exec(ctx, tx, "work_rest", account, job, work, at, "", "")
	})
	if err != nil {
		return err
	}
	after := max(0, at.Sub(s.f.clock.Now()))
	s.f.nudge(queue(s.job), after)
	return river.JobSnooze(after)
}

// written is how long River takes at most to note that a job was given back.
const written = 250 * time.Millisecond

// nudge makes daemons look for work that was given back for a short time, before they would poll.
func (f *Fleet) nudge(queue string, after time.Duration) {
	if f.o.PollOnly || after > f.o.Timing.Poll {
		return
	}
	stopping := f.state().soft
	go func() {
		if f.clock.Sleep(stopping, after+written) == nil {
			_, _ = f.pool.Exec(stopping, sql("nudge"), queue) // else they poll
		}
	}()
}

func (s *slice) step(ctx context.Context) error {
	f, u := s.f, s.unit
	w := s.runner.Find(s.job, s.cursor)
	if w == nil { // the configuration no longer has it, or does not have it yet
		account, job, work := s.key()
		if f.differ(ctx, f.pool, s.job) {
			return s.rest(ctx, f.clock.Now().Add(elsewhere), givenBack)
		}
		return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql("unit_skip"), u.run, work)
			f.log.Info("skipped work that the job no longer has", "account", account, "job", job, "work", work)
			return err
		})
	}
	w.Tally, w.Place = u.tally, u.place
	if w.Turns > 0 && s.completedSince(u.state.Began) {
		w.Complete = true // another run has ended the pass that this one was in
	}
	if s.job.Stagger > 0 && u.scheduled != nil {
		w.Start = u.state.Began.Add(time.Duration(u.place) * s.job.Stagger)
	}
	u.work, u.slice = w, s
	u.joined = s.runner.Join(s.job, u.state, u)
	u.joined.Learn(u.state, u.units)
	if u.first {
		if err := u.joined.CheckQuota(ctx); err != nil {
			w.Refused++
			u.state.Halted = err
			u.joined.Learn(u.state, 0)
		}
	}
	calls, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(f.state().soft, stop)()
	how, cause := catalog.Running, error(nil)
	var due time.Time
	if u.scheduled != nil {
		due = *u.scheduled
	}
	traced := u.joined.Trace(w, due)
	defer func() { traced(how, cause) }()
	res := u.joined.Step(calls, w, s.until)
	switch {
	case errors.Is(res.Err, errFenced), errors.Is(res.Err, ingest.ErrLostLock):
		return errFenced
	case res.Next == ingest.Again:
		return s.rest(ctx, f.clock.Now(), "")
	case res.Next == ingest.At:
		why := "the stagger of its region"
		if res.Err != nil {
			why = res.Err.Error()
		}
		return s.rest(ctx, res.At, why)
	case errors.Is(res.Err, ingest.ErrInterrupted): // another daemon goes on
		return s.rest(ctx, f.clock.Now(), "")
	case errors.Is(res.Err, quota.ErrStaleBook):
		f.markStale(res.Err)
		return s.rest(ctx, f.clock.Now(), "a daemon has an old price book")
	case errors.Is(res.Err, quota.ErrOutage) && w.Outages < mostOutages && f.others(ctx): // perhaps only this machine has lost it
		w.Outages++
		f.pause()
		f.log.Warn("leaving work to other machines", "job", s.job.Name, "work", w.Name, "error", res.Err)
		return s.rest(ctx, f.clock.Now(), "the ledger did not answer a machine")
	case u.broken != nil && res.Next == ingest.Failed: // the database does not answer, so nothing can be recorded either
		f.pause()
		return fmt.Errorf("save a page of %s %s: %w", s.job.Name, w.Name, u.broken)
	}
	done := u.joined.Ended(w, res.Err)
	how, cause = done.State, done.Err
	return s.end(ctx, done)
}

// elsewhere is how long work rests that another daemon may have in its settings.
const elsewhere = time.Minute

const givenBack = "a daemon without it in its settings gave it back"

// differ reports whether another daemon has other settings of a job. Then one of them is older:
// while machines get a new configuration one by one, work that is new is not skipped.
func (f *Fleet) differ(ctx context.Context, from querier, j *ingest.Job) (is bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := from.QueryRow(ctx, sql("daemons_differ"), f.id, Alive.Seconds(), j.Name, settingsOf(j)).Scan(&is)
	return err != nil || is
}

func settingsOf(j *ingest.Job) string { return digest(text(j)) }

func (s *slice) end(ctx context.Context, done *ingest.WorkReport) error {
	u := s.unit
	err := s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r, err := lockRun(ctx, tx, u.run)
		if err != nil {
			return err
		}
		if r.state.Recovered.IsZero() {
			r.state.Recovered = u.joined.State().Recovered
		}
		if r.state.Halted == nil && u.first {
			r.state.Halted = u.state.Halted
		}
		if err := r.endWork(ctx, tx, s.f, s.job.Name, done); err != nil {
			return err
		}
		if done.State == catalog.Done {
			if err := exec(ctx, tx, "work_done", s.river.Args.Account, s.job.Name, done.Work); err != nil {
				return err
			}
		}
		return exec(ctx, tx, "run_state", u.run, text(r.state), done.Units-u.saved)
	})
	if err == nil {
		s.f.spent.Add(done.Units - u.saved)
		u.joined.Tell(done)
	}
	return err
}

// pause keeps this process from making calls for a while.
func (f *Fleet) pause() {
	f.alter(func(s *state) { s.broken = f.clock.Now().Add(brake) })
}

// broken reports whether it does so now. A database whose clock was set back prolongs no pause.
func (f *Fleet) broken() bool {
	left := f.state().broken.Sub(f.clock.Now())
	return left > 0 && left <= brake
}

func (f *Fleet) others(ctx context.Context) (alive bool) {
	err := f.one(ctx, &alive, "daemons_others", f.id, Alive.Seconds())
	return err == nil && alive
}

// markStale stops the work of this process, because its price book is too old.
func (f *Fleet) markStale(err error) {
	f.alter(func(s *state) {
		select {
		case <-s.stale:
		default:
			s.status = err.Error()
			close(s.stale)
		}
	})
}
