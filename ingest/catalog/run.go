package catalog

import (
	"context"
	"fmt"
	"time"
)

// State is how a run, or a unit of work of it, stands.
type State string

// The states.
const (
	Running  State = "running"
	Done     State = "done"
	Deferred State = "deferred" // it goes on at its ResumeAt
	Failed   State = "failed"
)

// Outcome is how a run, or a unit of work of it, ended.
type Outcome struct {
	State    State
	ResumeAt time.Time // when it goes on or is tried again; zero is when it is due
	Error    string    // of what failed, or what kept it from going on

	// Of a unit of work.
	BlockedOn string // the pool whose block defers it; empty is none
	Units     int64  // that calls have cost beside those of its pages
}

// Start describes a run that begins.
type Start struct {
	Job string
	// Fence is shown with all that the run writes.
	Fence Fence
	// Scheduled is when it should have begun; zero if a person began it.
	Scheduled time.Time
}

// Run is a run that is under way; its pages are saved through it. It is safe for
// concurrent use, each unit of work by one goroutine.
type Run struct {
	ID    int64
	in    keeper
	job   string
	fence Fence
}

// keeper keeps what runs fetch: a [Catalog], or a [Sketch] of one.
type keeper interface {
	save(ctx context.Context, r *Run, p *Page) (Saved, error)
	restart(ctx context.Context, r *Run, work string) (Cursor, error)
	endWork(ctx context.Context, r *Run, work, region string, o Outcome) error
	end(ctx context.Context, r *Run, o Outcome) error
}

var (
	_ keeper = (*Catalog)(nil)
	_ keeper = (*Sketch)(nil)
)

// Begin begins a run. Runs of the same job that never ended are marked as failed:
// who begins one holds the lease, so their process is gone.
func (c *Catalog) Begin(ctx context.Context, s Start) (*Run, error) {
	r := &Run{in: c, job: s.Job, fence: s.Fence}
	err := c.change(ctx, func(tx *tx) error {
		if err := tx.show(s.Fence); err != nil {
			return err
		}
		if _, err := tx.exec("work_abandon", s.Job, tx.now); err != nil {
			return err
		}
		if _, err := tx.exec("run_abandon", s.Job, tx.now); err != nil {
			return err
		}
		var err error
		r.ID, err = tx.insert("run_add", s.Job, micros(s.Scheduled), tx.now)
		return err
	})
	if err != nil {
		return nil, c.fault(fmt.Sprintf("begin a run of %s in", s.Job), err)
	}
	return r, nil
}

// Restart gives up the pass that is under way, and returns the cursor of a new one
// with the same Mark, for when its token is not good any more.
func (r *Run) Restart(ctx context.Context, work string) (Cursor, error) {
	return r.in.restart(ctx, r, work)
}

func (c *Catalog) restart(ctx context.Context, r *Run, work string) (cur Cursor, err error) {
	err = c.guarded(ctx, r, "restart "+work, func(tx *tx) error {
		if cur, err = tx.cursor(r.job, work); err != nil {
			return err
		}
		cur.rewind()
		return tx.saveCursor(&cur)
	})
	return cur, err
}

// EndWork writes down how a unit of work ended in this run. If it is not done, its
// cursor says when it goes on.
func (r *Run) EndWork(ctx context.Context, work, region string, o Outcome) error {
	return r.in.endWork(ctx, r, work, region, o)
}

func (c *Catalog) endWork(ctx context.Context, r *Run, work, region string, o Outcome) error {
	return c.guarded(ctx, r, "end "+work, func(tx *tx) error {
		cur, err := tx.cursor(r.job, work)
		if err != nil {
			return err
		}
		cur.end(o)
		if err := tx.saveCursor(&cur); err != nil {
			return err
		}
		_, err = tx.exec("work_end", r.ID, work, region, string(o.State), tx.now, micros(o.ResumeAt), text(o.Error), o.Units)
		return err
	})
}

// End writes down how the run ended.
func (r *Run) End(ctx context.Context, o Outcome) error { return r.in.end(ctx, r, o) }

func (c *Catalog) end(ctx context.Context, r *Run, o Outcome) error {
	return c.guarded(ctx, r, "end a run", func(tx *tx) error {
		_, err := tx.exec("run_end", r.ID, string(o.State), tx.now, micros(o.ResumeAt), text(o.Error))
		return err
	})
}

// guarded runs a transaction behind the fence of a run.
func (c *Catalog) guarded(ctx context.Context, r *Run, doing string, do func(*tx) error) error {
	return c.fault(fmt.Sprintf("%s of %s in", doing, r.job), c.change(ctx, func(tx *tx) error {
		if err := tx.show(r.fence); err != nil {
			return err
		}
		return do(tx)
	}))
}
