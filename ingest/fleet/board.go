package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Board shows a fleet, and changes what its daemons do. It is for commands and pages, and
// needs no price book.
type Board struct {
	catalog *pgcatalog.Catalog
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
}

// NewBoard returns the board of the fleet in the database of a catalog. [Migrate] made the
// tables.
func NewBoard(c *pgcatalog.Catalog) (*Board, error) {
	client, err := river.NewClient(riverpgxv5.New(c.Pool()), &river.Config{Schema: schemaName})
	return &Board{catalog: c, pool: c.Pool(), client: client}, err
}

// Daemon is a process of the fleet.
type Daemon struct {
	ID        string        `json:"id"`
	Host      string        `json:"host"`
	PID       int           `json:"pid"`
	Version   string        `json:"version"`
	Revision  int64         `json:"revision"` // of its price book
	State     string        `json:"state"`    // [Running], or why it does not work
	Skew      time.Duration `json:"skew_ns"`  // of its clock: positive if it is ahead
	StartedAt time.Time     `json:"started_at"`
	SeenAt    time.Time     `json:"seen_at"`
	Jobs      []string      `json:"jobs"`
	Units     int64         `json:"units"`     // that it spent since it started
	Silent    time.Duration `json:"silent_ns"` // since it was seen, by the database's clock
	Leader    bool          `json:"leader"`    // it moves scheduled work, and takes over the work of programs
}

// Alive is how long a daemon may be silent.
const Alive = 15 * time.Second

// Alive reports whether the daemon was seen a moment ago.
func (d *Daemon) Alive() bool { return d.Silent < Alive }

// Idle reports whether the daemon is alive and does no work. Its state says why.
func (d *Daemon) Idle() bool { return d.Alive() && d.State != Running && d.State != stopping }

// Daemons returns the daemons that were seen in the last day and did not end by themselves,
// the oldest first.
func (b *Board) Daemons(ctx context.Context) (all []Daemon, err error) {
	return collect(ctx, b.pool, func(row pgx.CollectableRow) (d Daemon, err error) {
		var skew int64
		var now time.Time
		err = row.Scan(&d.ID, &d.Host, &d.PID, &d.Version, &d.Revision, &d.State, &skew, &d.StartedAt, &d.SeenAt, &d.Jobs, &d.Units, &now, &d.Leader)
		d.Skew, d.Silent = time.Duration(skew)*time.Microsecond, now.Sub(d.SeenAt)
		return d, err
	}, sql("daemons_all"))
}

// Unit is a unit of work of a job.
type Unit struct {
	Account   string    `json:"account"`
	Job       string    `json:"job"`
	Work      string    `json:"work"`
	Region    string    `json:"region,omitempty"`
	State     UnitState `json:"state"`
	Paused    bool      `json:"paused"`               // its job; [Board.Status] sets it
	NextAt    time.Time `json:"next_at,omitzero"`     // when it goes on
	Why       string    `json:"why,omitempty"`        // it waits
	BlockedOn string    `json:"blocked_on,omitempty"` // the pool whose block defers it
	HeldBy    string    `json:"held_by,omitempty"`    // the daemon that works on it
	HeldSince time.Time `json:"held_since,omitzero"`
	TakenFrom string    `json:"taken_from,omitempty"` // the daemon that held it before and vanished
	TakenAt   time.Time `json:"taken_at,omitzero"`
	// DeferredSince is when it was first deferred after it was completed last.
	DeferredSince time.Time `json:"deferred_since,omitzero"`

	river int64
}

// UnitState is what happens to a unit of work.
type UnitState string

// The states of a unit of work.
const (
	UnitIdle     UnitState = "idle" // until its job is due
	UnitQueued   UnitState = "queued"
	UnitRunning  UnitState = "running"
	UnitDeferred UnitState = "deferred" // until NextAt
)

// Units returns all units of work that the fleet ever had, by job and name.
func (b *Board) Units(ctx context.Context) ([]Unit, error) {
	return collect(ctx, b.pool, func(row pgx.CollectableRow) (u Unit, err error) {
		var state string
		var next, held, taken, since *time.Time
		err = row.Scan(&u.Account, &u.Job, &u.Work, &u.Region, &u.river, &state, &next, &u.Why, &u.BlockedOn, &u.HeldBy, &held, &u.TakenFrom, &taken, &since)
		for to, t := range map[*time.Time]*time.Time{&u.NextAt: next, &u.HeldSince: held, &u.TakenAt: taken, &u.DeferredSince: since} {
			if t != nil {
				*to = *t
			}
		}
		switch rivertype.JobState(state) {
		case rivertype.JobStateRunning:
			u.State = UnitRunning
		case rivertype.JobStateAvailable, rivertype.JobStateRetryable:
			u.State = UnitQueued
		case rivertype.JobStateScheduled, rivertype.JobStatePending:
			u.State = UnitDeferred
		default:
			u.State = UnitIdle
		}
		return u, err
	}, sql("works_all"))
}

// pauses returns the jobs that a person paused, by name. River's own pages can pause the queues
// of units.
func (b *Board) pauses(ctx context.Context, units []Unit) ([]Pause, error) {
	all, err := collect(ctx, b.pool, pgx.RowToStructByPos[Pause], sql("pauses"))
	if err != nil {
		return nil, err
	}
	names, err := collect(ctx, b.pool, pgx.RowTo[string], "SELECT name FROM "+schemaName+".river_queue WHERE paused_at IS NOT NULL")
	is := set(names)
	for i := range units {
		if u := &units[i]; is[queueName(u.Account, u.Job)] {
			all = append(all, Pause{u.Account, u.Job})
		}
	}
	slices.SortFunc(all, func(a, b Pause) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Account, b.Account)) })
	return slices.Compact(all), err
}

// ErrPaused says that the work of a job is paused on all machines.
var ErrPaused = errors.New("the job is paused on all machines")

// Pause stops the work of a job on all machines, after the steps that have begun. A program
// that has begun ends by itself. Runs are still inserted when they are due.
func (b *Board) Pause(ctx context.Context, account, job string) error {
	return b.pause(ctx, "pause", account, job, b.client.QueuePause)
}

// Resume ends a pause.
func (b *Board) Resume(ctx context.Context, account, job string) error {
	return b.pause(ctx, "pause_end", account, job, b.client.QueueResume)
}

// pause changes our row of the pause, and then River's queue if a daemon works it.
func (b *Board) pause(ctx context.Context, statement, account, job string, queue func(context.Context, string, *river.QueuePauseOpts) error) error {
	account = cmp.Or(account, quota.DefaultAccount)
	return b.bounded(ctx, func(ctx context.Context) error {
		if _, err := b.pool.Exec(ctx, sql(statement), account, job); err != nil {
			return err
		}
		if err := queue(ctx, queueName(account, job), nil); !errors.Is(err, rivertype.ErrNotFound) {
			return err
		}
		return nil
	})
}

// Retry lets the work of a job that waits go on now, and returns how much there was. The ledger
// may defer it again.
func (b *Board) Retry(ctx context.Context, account, job string) (n int, err error) {
	err = b.change(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		n, err = wakeSome(ctx, tx, sql("works_wake"), cmp.Or(account, quota.DefaultAccount), job, "", 1<<30)
		if err != nil {
			return err
		}
		return exec(ctx, tx, "cursors_due", job)
	})
	return n, err
}

// change runs a transaction for a person.
func (b *Board) change(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return b.bounded(ctx, func(ctx context.Context) error {
		return tried(ctx, b.pool, func(tx pgx.Tx) error { return do(ctx, tx) })
	})
}

// HeldError says that a daemon has a job that is to be dropped.
type HeldError struct{ Job, Daemon string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("the daemon %s has the job %s in its settings", e.Daemon, e.Job)
}

// Drop forgets the work of a job that no daemon has any more, and returns how much there was. It
// ends the runs of the job. The fetched data and the position of the job stay. While a daemon has
// the job, it returns a [*HeldError].
func (b *Board) Drop(ctx context.Context, account, job string) (n int, err error) {
	account = cmp.Or(account, quota.DefaultAccount)
	err = b.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var daemon string
		held, err := found(tx.QueryRow(ctx, sql("drop_held"), job, Alive.Seconds()).Scan(&daemon))
		if held {
			err = &HeldError{job, daemon}
		}
		if err != nil {
			return err
		}
		ids := func(statement string) ([]int64, error) {
			return collect(ctx, tx, pgx.RowTo[int64], sql(statement), account, job)
		}
		records, err := ids("drop_runs")
		if err != nil {
			return err
		}
		works, err := ids("drop_works")
		if err != nil {
			return err
		}
		n = len(works)
		for _, id := range works {
			if _, err := b.client.JobCancelTx(ctx, tx, id); err != nil && !errors.Is(err, rivertype.ErrNotFound) {
				return err
			}
		}
		for _, id := range records {
			if id == 0 { // it never began
				continue
			}
			end := catalog.Outcome{State: catalog.Failed, Error: "its job was dropped", Cause: "ended"}
			if err := b.catalog.In(tx).Join(id, job, catalog.Fence{}).End(ctx, end); err != nil {
				return err
			}
		}
		return exec(ctx, tx, "pause_end", account, job)
	})
	return n, err
}
