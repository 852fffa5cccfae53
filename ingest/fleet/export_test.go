package fleet

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// Insert inserts the run for a time of the schedule, and returns the error of one try.
func (f *Fleet) Insert(ctx context.Context, j *ingest.Job, at time.Time) error {
	_, err := f.insert(ctx, j, ingest.Occasion{Scheduled: at}, at)
	return err
}

// Resume inserts a run of a job's deferred work.
func (f *Fleet) Resume(ctx context.Context, j *ingest.Job) error {
	_, err := f.insert(ctx, j, ingest.Occasion{Deferred: true}, f.clock.Now())
	return err
}

// Ahead makes the machine's clock wrong for this process, which must not run yet.
func (f *Fleet) Ahead(by *atomic.Int64) {
	f.clock.machine = func() time.Time { return machine().Add(time.Duration(by.Load())) }
}

// Clock returns the clock of the database.
func (f *Fleet) Clock() *Clock { return f.clock }

// Tick does as the daemon does when the job is due.
func (f *Fleet) Tick(ctx context.Context, j *ingest.Job, at time.Time) { f.tick(ctx, j, at) }

// Ticks does so again and again, from a time on that an earlier process took for the next one.
func (f *Fleet) Ticks(ctx context.Context, j *ingest.Job, next time.Time) {
	known := &sync.Map{}
	known.Store(queue(j)+" "+j.Schedule().String(), next)
	f.ticks(ctx, j, known, next)
}

// Leads makes this process wait until it is River's leader.
func (f *Fleet) Leads(ctx context.Context) (bool, error) {
	var is bool
	err := f.pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM headroom_fleet.river_leader WHERE leader_id = $1::text)", f.id).Scan(&is)
	return is, err
}

// Holder returns what says that this process has a job, through a connection pool.
func (f *Fleet) Holder(pool *pgxpool.Pool, job int64, attempt int, at time.Time) (hold func(context.Context) error) {
	own := &Fleet{id: f.id, pool: pool, clock: f.clock}
	s := &slice{f: own, river: &river.Job[Args]{JobRow: &rivertype.JobRow{ID: job, Attempt: attempt, AttemptedAt: &at}}}
	return s.hold
}

// Timeout returns what River gets as the timeout of a job that was attempted at a time.
func (f *Fleet) Timeout(job string, at time.Time) time.Duration {
	w := &worker{f: f}
	return w.Timeout(&river.Job[Args]{JobRow: &rivertype.JobRow{AttemptedAt: &at}, Args: Args{Account: "default", Job: job}})
}

// QuietLog returns the log that River gets.
func QuietLog(h slog.Handler, clock quota.Clock) *slog.Logger {
	return slog.New(quietHandler{h, &terse{clock: clock}})
}

// Beat says that this process is alive.
func (f *Fleet) Beat(ctx context.Context) error { return f.beat(ctx) }

// Heard reports whether this process may tell which others are gone, and HeardAt makes it remember that it was so at a time.
func (f *Fleet) Heard() bool { return f.heardFor(f.o.Timing.Gone) }

func (f *Fleet) HeardAt(t time.Time) {
	f.alter(func(s *state) { s.heard, s.beaten, s.broken = t, t, t.Add(brake) })
}

// Broken reports whether this process makes no calls for a while.
func (f *Fleet) Broken() bool { return f.broken() }

// Statement returns one of the statements of this package.
func Statement(name string) string { return sql(name) }
