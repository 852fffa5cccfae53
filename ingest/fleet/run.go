package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
)

// row is a run that has begun.
type row struct {
	id        int64
	scheduled *time.Time
	deferred  bool
	record    *int64 // nil until it begins
	units     int64
	state     *ingest.State // nil until it begins
	works     int           // that it was made with; 0 in runs of earlier versions
	ended     bool
}

func (r *row) why() ingest.Occasion {
	o := ingest.Occasion{Deferred: r.deferred}
	if r.scheduled != nil {
		o.Scheduled = *r.scheduled
	}
	return o
}

// lockRun reads a run, which others cannot change until the transaction ends.
func lockRun(ctx context.Context, tx pgx.Tx, id int64) (*row, error) {
	r := &row{}
	return r, tx.QueryRow(ctx, sql("run_lock"), id).Scan(&r.id, &r.scheduled, &r.deferred, &r.record, &r.units, &r.state, &r.works, &r.ended)
}

// begin records that the run has begun, if it has not.
func (r *row) begin(ctx context.Context, tx pgx.Tx, f *Fleet, j *ingest.Job, works int) error {
	if r.state != nil {
		return nil
	}
	now := f.clock.Now()
	id, err := f.catalog.In(tx).Add(ctx, j.Name, r.why().Scheduled)
	if err != nil {
		return err
	}
	r.record, r.state = &id, &ingest.State{Began: now, Deadline: j.Deadline(now, r.why()), Works: works}
	return exec(ctx, tx, "run_begin", r.id, id, text(r.state))
}

// endWork records how a unit of work of the run ended. It does not save the state of the run.
func (r *row) endWork(ctx context.Context, tx pgx.Tx, f *Fleet, job string, w *ingest.WorkReport) error {
	r.state.Count(w)
	if err := f.catalog.In(tx).Join(*r.record, job, catalog.Fence{}).EndWork(ctx, w.Work, w.Region, w.Outcome()); err != nil {
		return err
	}
	how := ending{State: w.State, ResumeAt: w.ResumeAt, BlockedOn: w.BlockedOn, Cause: ingest.CauseOf(w.Err)}
	return exec(ctx, tx, "unit_end", r.id, w.Work, text(w.Tally), text(how))
}

// ending is how a run or a unit of work ended, in JSON.
type ending struct {
	State     catalog.State `json:"state"`
	Ended     time.Time     `json:"ended,omitzero"` // of a run
	ResumeAt  time.Time     `json:"resume_at,omitzero"`
	BlockedOn string        `json:"blocked_on,omitempty"` // of a unit of work
	Cause     *ingest.Cause `json:"cause,omitempty"`
}

// unit is a unit of work in a run, which a worker holds. It is the [catalog.Run] of the
// step: every page is saved behind the fence, with what the run has to know of it.
type unit struct {
	run       int64
	scheduled *time.Time
	record    int64
	state     ingest.State
	units     int64 // that the run had spent
	place     int
	tally     ingest.Tally
	first     bool // its work begins the run

	slice  *slice
	work   *ingest.Work
	joined *ingest.Run
	saved  int64 // units of its tally that its run has counted
	broken error // the last error of the database
}

// open finds the oldest run that has the work to do, and begins it if it is the first. It
// skips runs that have nothing left to do for the work, all of them at once, so that a long
// backlog does not outlast the transaction.
func (s *slice) open(ctx context.Context, tx pgx.Tx) (*unit, error) {
	account, job, work := s.key()
	for {
		r, u, works := &row{}, &unit{}, 0
		var region string
		there, err := found(tx.QueryRow(ctx, sql("unit_next"), account, job, work).Scan(&r.id, &r.scheduled, &r.deferred, &r.record, &r.units, &r.state, &region, &u.place, &u.tally, &works))
		if err != nil || !there {
			return nil, err
		}
		fresh := r.state == nil
		if fresh { // another worker may be beginning it
			if r, err = lockRun(ctx, tx, r.id); err != nil {
				return nil, err
			}
			fresh = r.state == nil
		}
		if due := r.scheduled; due != nil {
			late := s.f.clock.Now().Add(-s.job.MaxLateness - s.job.Jitter)
			done := u.tally.Turns == 0 && s.completedSince(*due) // by another run
			if done {
				err = exec(ctx, tx, "units_skip", account, job, work, s.cursor.CompletedAt, r.id)
			} else if done = fresh && due.Before(late); done {
				err = s.tooLate(ctx, tx, late, r.id)
			}
			if err != nil {
				return nil, err
			}
			if done {
				continue
			}
		}
		if err := r.begin(ctx, tx, s.f, s.job, works); err != nil {
			return nil, err
		}
		u.run, u.scheduled, u.record, u.state, u.units, u.first = r.id, r.scheduled, *r.record, *r.state, r.units, fresh
		u.saved = u.tally.Units
		return u, nil
	}
}

// completedSince reports whether the work was completed since a time. If the clock was set back since, that was the work of
// this time only if it was completed before the job was due again.
func (s *slice) completedSince(t time.Time) bool {
	at, now := s.cursor.CompletedAt, s.f.clock.Now()
	return !at.Before(t) && (at.Before(now.Add(MaxSkew)) || at.Before(s.job.Schedule().Next(t)) && at.Before(now.Add(time.Hour)))
}

// tooLate ends the runs that were due before a time, from the first on.
func (s *slice) tooLate(ctx context.Context, tx pgx.Tx, before time.Time, first int64) error {
	account, job, _ := s.key()
	times, err := collect(ctx, tx, pgx.RowTo[time.Time], sql("runs_skip"), account, job, before, first)
	if err != nil {
		return err
	}
	var late ingest.Skips
	for _, at := range times {
		late.Add(at)
	}
	return s.f.skip(ctx, tx, s.job, late, ingest.TooLate)
}

// patient is how long a page that was paid for is tried to be saved.
const patient = 20 * time.Second

// Save implements [catalog.Run]. The fence goes with the first round trip of the page's
// transaction, and what the others have to know with the second, before its COMMIT.
func (u *unit) Save(ctx context.Context, p *catalog.Page) (saved catalog.Saved, err error) {
	f, before := u.slice.f, (*catalog.Saved)(nil)
	var state *ingest.State
	var total int64
	run := f.catalog.Guarded(pgcatalog.Guard{Before: u.slice.fence, Saved: func(b *pgx.Batch, s catalog.Saved) {
		if s.Repeated && before != nil && !before.Repeated { // the transaction before was committed, though it failed
			b.Queue(sql("run_count"), u.run, 0).QueryRow(func(row pgx.Row) error { return row.Scan(&total, &state) })
			return
		}
		before = &s
		tally := u.work.Tally
		tally.Saved(p, s)
		u.tell(b, tally, &total, &state)
	}}).Join(u.record, p.Cursor.Job, catalog.Fence{})
	for end := f.clock.Now().Add(patient); ; {
		bounded, cancel := f.bounded(context.WithoutCancel(ctx))
		saved, err = run.Save(bounded, p)
		f.wrote("save a page", u.slice.job, err)
		if cancel(); err == nil {
			saved = *before
			break
		}
		if errors.Is(err, errFenced) || errors.Is(err, catalog.ErrOutOfStep) || f.clock.Now().After(end) || f.state().hard.Err() != nil {
			break
		}
		f.log.Warn("a page is not saved yet", "job", p.Cursor.Job, "work", p.Cursor.Work, "error", err)
		if f.clock.Sleep(ctx, time.Second) != nil {
			break
		}
	}
	if err != nil {
		u.broken = err
		if errors.Is(err, errFenced) {
			u.broken = nil
		}
		return catalog.Saved{}, err
	}
	u.told(total, *state)
	return saved, nil
}

// tell queues what the other processes have to know: the tally and its units. They answer with
// the units and the state of the run.
func (u *unit) tell(b *pgx.Batch, t ingest.Tally, total *int64, state **ingest.State) {
	b.Queue(sql("unit_tally"), u.run, u.work.Name, text(t))
	b.Queue(sql("run_count"), u.run, t.Units-u.saved).QueryRow(func(row pgx.Row) error { return row.Scan(total, state) })
}

// told takes their answer, when it is committed.
func (u *unit) told(total int64, state ingest.State) {
	mine := u.work.Units - u.saved
	u.saved = u.work.Units
	u.slice.f.spent.Add(mine)
	u.joined.Learn(state, total-u.units-mine)
	u.units, u.state = total, state
}

// Count tells the other processes what failed calls cost.
func (u *unit) Count(ctx context.Context) error {
	var state *ingest.State
	var total int64
	err := u.slice.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var b pgx.Batch
		u.tell(&b, u.work.Tally, &total, &state)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err == nil {
		u.told(total, *state)
	}
	return err
}

// save keeps the tally between slices.
func (u *unit) save(ctx context.Context, tx pgx.Tx) error {
	if u.work == nil {
		return nil
	}
	var state *ingest.State
	var total int64
	var b pgx.Batch
	u.tell(&b, u.work.Tally, &total, &state)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if u.first && u.state.Halted != nil {
		r, err := lockRun(ctx, tx, u.run)
		if err != nil {
			return err
		}
		if r.state.Halted == nil {
			r.state.Halted = u.state.Halted
		}
		return exec(ctx, tx, "run_state", u.run, text(r.state), 0)
	}
	return nil
}

func (u *unit) Restart(ctx context.Context, work string) (cur catalog.Cursor, err error) {
	err = u.slice.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		cur, err = u.slice.f.catalog.In(tx).Join(u.record, u.slice.job.Name, catalog.Fence{}).Restart(ctx, work)
		return err
	})
	if !errors.Is(err, errFenced) {
		u.broken = err
	}
	return cur, err
}

// EndWork implements [catalog.Run]. The worker records the end by itself.
func (u *unit) EndWork(context.Context, string, string, catalog.Outcome) error { return nil }
func (u *unit) End(context.Context, catalog.Outcome) error                     { return nil }
