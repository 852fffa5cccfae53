package fleet

import (
	"context"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Args names a unit of work in River's queue.
type Args struct {
	Account string `json:"account"`
	Job     string `json:"job"`
	Work    string `json:"work"`
}

// Kind implements [river.JobArgs].
func (Args) Kind() string { return "headroom_work" }

// unfinished are the states of a job that has still to be done. Another job of the same work
// is inserted only when none has one of them.
var unfinished = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
}

// digest shortens a name.
func digest(s string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // it never fails
	return hex.EncodeToString(h.Sum(nil))
}

// batch is how much work a transaction adds to a run, or takes from one, at most. With it a
// transaction takes a fraction of a second. Its locks and its age hold up nobody.
const batch = 1000

// insert inserts a run and its units of work, unless another process did or there is nothing
// to do. It returns the id of the run, or 0. The work starts at start, and its regions after
// it as the job staggers them. If there is much work, the first of it is worked while the rest is added.
func (f *Fleet) insert(ctx context.Context, j *ingest.Job, why ingest.Occasion, start time.Time) (run int64, err error) {
	runner := f.state().runner
	var scheduled *time.Time
	if !why.Scheduled.IsZero() {
		scheduled = &why.Scheduled
		known := false
		if err := f.one(ctx, &known, "run_known", account(j), j.Name, why.Scheduled); err != nil || known {
			return 0, err
		}
	}
	now := f.clock.Now()
	works, err := runner.Plan(ctx, j, now, why)
	if err != nil {
		return 0, err
	}
	var todo []*ingest.Work
	err = f.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		run, todo = 0, works
		if why.Deferred { // others may resume it at the same time
			if todo, err = f.unheld(ctx, tx, j, works); err != nil || len(todo) == 0 {
				return err
			}
		}
		added, err := found(tx.QueryRow(ctx, sql("run_add"), account(j), j.Name, scheduled, why.Deferred, f.id, len(todo), len(todo) > batch).Scan(&run))
		if err != nil || !added {
			return err
		}
		if scheduled != nil && j.Misfire == ingest.Skip {
			busy := false
			if err := tx.QueryRow(ctx, sql("run_busy"), account(j), j.Name, run).Scan(&busy); err != nil {
				return err
			}
			if busy { // the time was missed
				todo = nil
				return errors.Join(f.skip(ctx, tx, j, ingest.Skips{Times: 1, Last: *scheduled}, ingest.StillBusy), exec(ctx, tx, "run_skip", run))
			}
		}
		if err := f.missed(ctx, tx, j, scheduled); err != nil {
			return err
		}
		return f.addWork(ctx, tx, j, run, 0, todo[:min(batch, len(todo))], why, start)
	})
	switch {
	case err != nil || run == 0:
	case len(works) == 0: // nobody else would end it
		err = f.endRun(ctx, j, runner, run, nil)
	case len(todo) > batch:
		err = f.addRest(ctx, j, run, batch, todo[batch:], why, start)
	}
	return run, err
}

// missed records the times of the schedule that have no run, up to this one.
func (f *Fleet) missed(ctx context.Context, tx pgx.Tx, j *ingest.Job, at *time.Time) error {
	if at == nil {
		return nil
	}
	var last *time.Time
	if err := tx.QueryRow(ctx, sql("run_before"), account(j), j.Name, *at).Scan(&last); err != nil || last == nil {
		return err
	}
	return f.skip(ctx, tx, j, j.Skips(*last, *at), ingest.NobodyThere)
}

// skip records times of the schedule that were skipped.
func (f *Fleet) skip(ctx context.Context, tx pgx.Tx, j *ingest.Job, s ingest.Skips, why string) error {
	if s.Times == 0 {
		return nil
	}
	in := f.catalog.In(tx)
	id, err := in.Add(ctx, j.Name, s.Last)
	if err != nil {
		return err
	}
	return in.Join(id, j.Name, catalog.Fence{}).End(ctx, s.Outcome(why))
}

func exec(ctx context.Context, tx pgx.Tx, name string, args ...any) error {
	_, err := tx.Exec(ctx, sql(name), args...)
	return err
}

// addRest adds the rest of the work of a run that has some already. If this process ends or is cut off, another daemon
// goes on, see adopt.
func (f *Fleet) addRest(ctx context.Context, j *ingest.Job, run int64, has int, works []*ingest.Work, why ingest.Occasion, start time.Time) error {
	for mine := true; mine && len(works) > 0; {
		part := works[:min(batch, len(works))]
		err := f.persist(ctx, "add the work of "+j.Name, func() error {
			return f.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				if mine, err = f.adds(ctx, tx, run, len(part) < len(works)); err != nil || !mine {
					return err
				}
				todo := part
				if why.Deferred {
					if todo, err = f.deferred(ctx, tx, j, part); err != nil {
						return err
					}
				}
				return f.addWork(ctx, tx, j, run, has, todo, why, start)
			})
		})
		if err != nil {
			return err
		}
		has, works = has+len(part), works[len(part):]
	}
	return nil
}

// adds reports whether this process still adds the work of a run: it does not if it committed and the answer was lost, or
// if another took over. If there is no more after this transaction, it notes that.
func (f *Fleet) adds(ctx context.Context, tx pgx.Tx, run int64, more bool) (bool, error) {
	return found(tx.QueryRow(ctx, sql("run_adding"), run, f.id, more).Scan(&run))
}

// stopAdding ends the addition of work to a run that its process gives up.
func (f *Fleet) stopAdding(ctx context.Context, run int64) error {
	return f.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := f.adds(ctx, tx, run, false)
		return err
	})
}

// adopt goes on with a run of a job whose process vanished before it had added all work. What a
// person chose for a run of theirs is not known, so that run keeps the work that it has.
func (f *Fleet) adopt(ctx context.Context, j *ingest.Job, runner *ingest.Runner) error {
	r := row{}
	vanished, err := found(f.pool.QueryRow(ctx, sql("run_adopt"), account(j), j.Name, f.id, f.o.Timing.Mend).Scan(&r.id, &r.scheduled, &r.deferred))
	if err != nil || !vanished {
		return err
	}
	var works []*ingest.Work
	if r.scheduled != nil || r.deferred {
		if works, err = runner.Plan(ctx, j, f.clock.Now(), r.why()); err != nil {
			return err
		}
	}
	names, err := collect(ctx, f.pool, pgx.RowTo[string], sql("units_of_run"), r.id)
	if err != nil {
		return err
	}
	has := set(names)
	works = slices.DeleteFunc(slices.Clone(works), func(w *ingest.Work) bool { return has[w.Name] })
	f.log.Warn("goes on with a run whose process vanished before all its work was added", "job", j.Name, "run", r.id, "has", len(names), "lacks", len(works))
	if len(works) == 0 {
		return f.stopAdding(ctx, r.id)
	}
	return f.addRest(ctx, j, r.id, len(names), works, r.why(), f.clock.Now())
}

// unheld returns the work that no open run has. Only one process at a time may ask.
func (f *Fleet) unheld(ctx context.Context, tx pgx.Tx, j *ingest.Job, works []*ingest.Work) ([]*ingest.Work, error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", schemaName+"/"+account(j)+"/"+j.Name); err != nil {
		return nil, err
	}
	coming := false
	if err := tx.QueryRow(ctx, sql("units_coming"), account(j), j.Name).Scan(&coming); err != nil || coming {
		return nil, err
	}
	names, err := collect(ctx, tx, pgx.RowTo[string], sql("units_open"), account(j), j.Name)
	if err != nil {
		return nil, err
	}
	open := set(names)
	return f.deferred(ctx, tx, j, slices.DeleteFunc(slices.Clone(works), func(w *ingest.Work) bool { return open[w.Name] }))
}

// deferred returns the work that is still deferred: another run may have done it since it was listed.
func (f *Fleet) deferred(ctx context.Context, tx pgx.Tx, j *ingest.Job, works []*ingest.Work) ([]*ingest.Work, error) {
	cursors, err := f.catalog.In(tx).Cursors(ctx, j.Name)
	if err != nil {
		return nil, err
	}
	still := map[string]bool{}
	for _, c := range cursors {
		still[c.Work] = !c.ResumeAt.IsZero()
	}
	return slices.DeleteFunc(slices.Clone(works), func(w *ingest.Work) bool { return !still[w.Name] }), nil
}

// addWork adds units of work to a run that has some already, and queues them.
func (f *Fleet) addWork(ctx context.Context, tx pgx.Tx, j *ingest.Job, run int64, has int, works []*ingest.Work, why ingest.Occasion, start time.Time) error {
	if len(works) == 0 {
		return nil
	}
	q := &queued{}
	var places []int32
	// River works jobs in the order of their times, and then of their ids. Work that may start
	// at once gets the time of the transaction, so the stalest comes first.
	for _, w := range works {
		from := start
		if j.Stagger > 0 && !why.Scheduled.IsZero() {
			from = start.Add(time.Duration(w.Place) * j.Stagger)
		}
		q.add(w.Name, w.Region, from)
		places = append(places, int32(w.Place))
	}
	if err := exec(ctx, tx, "units_add", run, q.works, q.regions, places, has); err != nil {
		return err
	}
	return f.enqueue(ctx, tx, j, q)
}

type queued struct {
	works, regions []string
	from           []time.Time
}

func (q *queued) add(work, region string, from time.Time) {
	q.works, q.regions, q.from = append(q.works, work), append(q.regions, region), append(q.from, from)
}

// enqueue inserts River's jobs of units of work, or joins the unfinished ones and wakes them.
func (f *Fleet) enqueue(ctx context.Context, tx pgx.Tx, j *ingest.Job, q *queued) error {
	if len(q.works) == 0 {
		return nil
	}
	now := f.clock.Now()
	params := make([]river.InsertManyParams, len(q.works))
	for i, work := range q.works {
		var at time.Time // River takes any other time for one to come
		if q.from[i].After(now) {
			at = q.from[i]
		}
		params[i] = river.InsertManyParams{Args: Args{account(j), j.Name, work}, InsertOpts: &river.InsertOpts{
			Queue: queue(j), ScheduledAt: at, MaxAttempts: attempts, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished},
		}}
	}
	all, err := f.queue.InsertManyTx(ctx, tx, params)
	if err != nil {
		return err
	}
	ids, asleep := make([]int64, len(all)), []int64{}
	for i, res := range all {
		ids[i] = res.Job.ID
		if res.UniqueSkippedAsDuplicate && res.Job.ScheduledAt.After(q.from[i]) {
			asleep = append(asleep, res.Job.ID)
		}
	}
	if len(asleep) > 0 {
		if err := exec(ctx, tx, "jobs_wake", asleep); err != nil {
			return err
		}
	}
	return exec(ctx, tx, "work_queue", account(j), j.Name, q.works, q.regions, ids, q.from)
}
