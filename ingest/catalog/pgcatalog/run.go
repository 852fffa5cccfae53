package pgcatalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// run is a [catalog.Run] in a database.
type run struct {
	c     *Catalog
	id    int64
	job   string
	fence catalog.Fence
}

// Begin starts a run. It marks earlier runs of the job that never ended as failed: the
// caller holds the job's lease, so their process is gone.
func (c *Catalog) Begin(ctx context.Context, s catalog.Start) (catalog.Run, error) {
	r := &run{c: c, job: s.Job, fence: s.Fence}
	err := r.change(ctx, "begin a run of "+s.Job, nothing, func(tx *tx, b *pgx.Batch) error {
		b.Queue(sql("work_abandon"), s.Job, micros(tx.now))
		b.Queue(sql("run_abandon"), s.Job, micros(tx.now))
		b.Queue(sql("run_add"), s.Job, micros(s.Scheduled), micros(tx.now)).QueryRow(func(row pgx.Row) error { return row.Scan(&r.id) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Add records a run that several processes work on, and returns its id. It abandons no
// other run. A time at which it was scheduled that is zero says that a person started it.
func (c *Catalog) Add(ctx context.Context, job string, scheduled time.Time) (id int64, err error) {
	err = c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
		b.Queue(sql("run_add"), job, micros(scheduled), micros(tx.now)).QueryRow(func(row pgx.Row) error { return row.Scan(&id) })
		return nil
	})
	return id, c.fault("record a run of "+job+" in", err)
}

// Join returns a run that has begun, for a process that does part of its work. It reads and
// writes nothing. The fence may be zero if a guard checks another one.
func (c *Catalog) Join(id int64, job string, f catalog.Fence) catalog.Run {
	return &run{c: c, id: id, job: job, fence: f}
}

// change runs a transaction behind the run's fence. The text doing goes into an error.
func (r *run) change(ctx context.Context, doing string, read func(*pgx.Batch), write func(*tx, *pgx.Batch) error) error {
	var last int64
	return r.c.fault(doing+" in", r.c.change(ctx, func(b *pgx.Batch) {
		last = 0
		if r.fence.Name != "" {
			b.Queue(sql("fence_find"), r.fence.Name).Query(func(rows pgx.Rows) error {
				return eachRow(rows, func(scan func(...any) error) error { return scan(&last) })
			})
		}
		read(b)
	}, func(tx *tx, b *pgx.Batch) error {
		if last > r.fence.Token {
			return r.fenced()
		}
		if r.fence.Name != "" && last < r.fence.Token {
			// In a round trip of its own, once for a token: nothing may be committed if another
			// process with a higher token was faster.
			if err := tx.conn.QueryRow(tx.ctx, sql("fence_save"), r.fence.Name, r.fence.Token).Scan(&last); err != nil {
				return err
			}
			if last != r.fence.Token {
				return r.fenced()
			}
		}
		return write(tx, b)
	}))
}

func (r *run) fenced() error { return fmt.Errorf("%s: %w", r.fence.Name, catalog.ErrFenced) }

// Restart implements [catalog.Run].
func (r *run) Restart(ctx context.Context, work string) (cur catalog.Cursor, err error) {
	err = r.move(ctx, "restart "+work+" of "+r.job, work, func(_ *tx, _ *pgx.Batch, at *catalog.Cursor) {
		at.Restart()
		cur = *at
	})
	return cur, err
}

// EndWork implements [catalog.Run].
func (r *run) EndWork(ctx context.Context, work, region string, o catalog.Outcome) error {
	return r.move(ctx, "end "+work+" of "+r.job, work, func(tx *tx, b *pgx.Batch, cur *catalog.Cursor) {
		cur.End(o)
		b.Queue(sql("work_end"), r.id, work, valid(region), string(o.State), micros(tx.now), micros(o.ResumeAt), valid(o.Error), o.Units, o.Cause, o.Pool, o.Refused)
	})
}

// move changes the cursor of a unit of work.
func (r *run) move(ctx context.Context, doing, work string, change func(*tx, *pgx.Batch, *catalog.Cursor)) error {
	cur := &locked{}
	return r.change(ctx, doing, func(b *pgx.Batch) { cur.read(b, r.job, work) }, func(tx *tx, b *pgx.Batch) error {
		change(tx, b, &cur.Cursor)
		cur.save(b)
		return nil
	})
}

// End implements [catalog.Run].
func (r *run) End(ctx context.Context, o catalog.Outcome) error {
	return r.change(ctx, "end a run of "+r.job, nothing, func(tx *tx, b *pgx.Batch) error {
		b.Queue(sql("run_end"), r.id, string(o.State), micros(tx.now), micros(o.ResumeAt), valid(o.Error))
		return nil
	})
}

// NewFence returns a fence whose token is higher than any other of that name. It is for
// holders of a lock without tokens.
func (c *Catalog) NewFence(ctx context.Context, name string) (catalog.Fence, error) {
	f := catalog.Fence{Name: name}
	err := c.change(ctx, nothing, func(tx *tx, b *pgx.Batch) error {
		b.Queue(sql("fence_take"), name, tx.now.UnixMicro()).QueryRow(func(row pgx.Row) error { return row.Scan(&f.Token) })
		return nil
	})
	if err != nil {
		return catalog.Fence{}, c.fault("write to", err)
	}
	return f, nil
}

// ChargeTo records the address of the ledger that runs are charged to from now on. It
// returns when runs were first charged to that ledger. This is now if the address is new,
// or if forget says that earlier spend no longer matters.
func (c *Catalog) ChargeTo(ctx context.Context, address string, forget bool) (since time.Time, err error) {
	var last string
	var at time.Time
	err = c.change(ctx, func(b *pgx.Batch) {
		last, at = "", time.Time{}
		b.Queue(sql("ledger_find")).QueryRow(func(row pgx.Row) error {
			if err := scan(row, &last, &at); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		})
	}, func(tx *tx, b *pgx.Batch) error {
		if since = at; last == address && !at.IsZero() && !forget {
			return nil
		}
		since = tx.now
		b.Queue(sql("ledger_save"), address, micros(tx.now))
		return nil
	})
	return since, c.fault("note the ledger in", err)
}

// Spent returns the units that runs have spent, by job. It counts runs that began at or
// after since.
func (c *Catalog) Spent(ctx context.Context, since time.Time) (map[string]int64, error) {
	all := map[string]int64{}
	err := c.each(ctx, func(scan func(...any) error) error {
		var job string
		var units int64
		err := scan(&job, &units)
		all[job] = units
		return err
	}, sql("spent"), micros(since))
	return all, err
}

// Ready returns an error if the catalog cannot be read.
func (c *Catalog) Ready(ctx context.Context) error {
	return c.each(ctx, func(func(...any) error) error { return nil }, "SELECT id FROM headroom_catalog.runs ORDER BY id DESC LIMIT 1")
}
