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

// insert inserts a run and its units of work, unless another process did or there is nothing
// to do. It returns the id of the run, or 0. The work starts at start, and its regions after
// it as the job staggers them.
func (f *Fleet) insert(ctx context.Context, j *ingest.Job, why ingest.Occasion, start time.Time) (run int64, err error) {
	_, runner := f.inForce()
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
	err = f.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		run = 0
		todo := works
		if why.Deferred { // others may resume it at the same time
			if todo, err = f.unheld(ctx, tx, j, works); err != nil || len(todo) == 0 {
				return err
			}
		}
		err := tx.QueryRow(ctx, sql("run_add"), account(j), j.Name, scheduled, why.Deferred, f.id).Scan(&run)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if scheduled != nil && j.Misfire == ingest.Skip {
			busy := false
			if err := tx.QueryRow(ctx, sql("run_busy"), account(j), j.Name, run).Scan(&busy); err != nil {
				return err
			}
			if busy { // the time was missed
				_, err := tx.Exec(ctx, sql("run_skip"), run)
				return err
			}
		}
		return f.addWork(ctx, tx, j, run, todo, why, start)
	})
	if err == nil && run != 0 && len(works) == 0 { // nobody else would end it
		err = f.endRun(ctx, j, runner, run, nil)
	}
	return run, err
}

// unheld returns the work that no open run has. Only one process at a time may ask.
func (f *Fleet) unheld(ctx context.Context, tx pgx.Tx, j *ingest.Job, works []*ingest.Work) ([]*ingest.Work, error) {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))", schemaName+"/"+account(j)+"/"+j.Name); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql("units_open"), account(j), j.Name)
	if err != nil {
		return nil, err
	}
	open, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return slices.DeleteFunc(slices.Clone(works), func(w *ingest.Work) bool { return slices.Contains(open, w.Name) }), err
}

// addWork adds the units of work of a run, and queues them.
func (f *Fleet) addWork(ctx context.Context, tx pgx.Tx, j *ingest.Job, run int64, works []*ingest.Work, why ingest.Occasion, start time.Time) error {
	var names, regions []string
	var places []int32
	for _, w := range works {
		names, regions, places = append(names, w.Name), append(regions, w.Region), append(places, int32(w.Place))
	}
	if _, err := tx.Exec(ctx, sql("units_add"), run, names, regions, places); err != nil {
		return err
	}
	// River works jobs in the order of their times, and then of their ids. Work that may start
	// at once gets the time of the transaction, so the stalest comes first.
	for _, w := range works {
		from := start
		if j.Stagger > 0 && !why.Scheduled.IsZero() {
			from = start.Add(time.Duration(w.Place) * j.Stagger)
		}
		if err := f.enqueue(ctx, tx, j, w.Name, w.Region, from); err != nil {
			return err
		}
	}
	return nil
}

// enqueue inserts River's job of a unit of work, or joins the unfinished one and wakes it.
func (f *Fleet) enqueue(ctx context.Context, tx pgx.Tx, j *ingest.Job, work, region string, from time.Time) error {
	var at time.Time // River takes any other time for one to come
	if from.After(f.clock.Now()) {
		at = from
	}
	res, err := f.queue.InsertTx(ctx, tx, Args{account(j), j.Name, work}, &river.InsertOpts{
		Queue: queue(j), ScheduledAt: at, MaxAttempts: attempts, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished},
	})
	if err != nil {
		return err
	}
	if res.UniqueSkippedAsDuplicate && res.Job.ScheduledAt.After(from) {
		if _, err := f.queue.JobRetryTx(ctx, tx, res.Job.ID); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, sql("work_queue"), account(j), j.Name, work, region, res.Job.ID, from)
	return err
}
