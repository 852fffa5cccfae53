package catalog

import (
	"context"
	"time"
)

// State is the state of a run, or of a unit of work in it.
type State string

// The states.
const (
	Running  State = "running"
	Done     State = "done"
	Deferred State = "deferred" // resumes at its ResumeAt
	Failed   State = "failed"
	Skipped  State = "skipped" // it did nothing; its Error says why
)

// Outcome says how a run, or a unit of work in it, ended.
type Outcome struct {
	State    State
	ResumeAt time.Time // when to resume or retry; zero waits until the job is due
	Error    string    // why it failed, or was deferred or skipped

	// These are set for a unit of work only.
	BlockedOn string // the blocked pool that defers it; empty if no block does
	Units     int64  // units spent on calls that saved no page
	Cause     string // why it stopped, in a word; empty if an answer of the upstream says it
	Pool      string // the pool that lacked units or was blocked
	Refused   int64  // calls that the ledger refused
}

// Start describes a new run.
type Start struct {
	Job string
	// Fence protects every write of the run.
	Fence Fence
	// Scheduled is when the run was due; zero if a person started it.
	Scheduled time.Time
}

// Run records what one run of a job does. It is safe for concurrent use, with one
// goroutine for each unit of work.
type Run interface {
	// Save saves a page and its cursor in one transaction. Saving a page a second time
	// changes nothing. Save returns [ErrOutOfStep] if the page is not the next one of
	// its unit of work, and [ErrFenced] once another process has taken over.
	Save(ctx context.Context, p *Page) (Saved, error)
	// Restart abandons the current pass of a unit of work and returns the cursor of a new
	// pass with the same Mark. Call it when the upstream rejects the cursor's token.
	Restart(ctx context.Context, work string) (Cursor, error)
	// EndWork records how a unit of work ended. If it is not done, its cursor says when
	// it resumes.
	EndWork(ctx context.Context, work, region string, o Outcome) error
	// End records how the run ended.
	End(ctx context.Context, o Outcome) error
}

// run is a [Run] in the file of a Catalog.
type run struct {
	c     *Catalog
	id    int64
	job   string
	fence Fence
}

// Begin starts a run. It marks earlier runs of the job that never ended as failed: the
// caller holds the job's lease, so their process is gone.
func (c *Catalog) Begin(ctx context.Context, s Start) (Run, error) {
	r := &run{c: c, job: s.Job, fence: s.Fence}
	err := r.change(ctx, "begin a run of "+s.Job, func(tx *tx) error {
		if _, err := tx.Exec("work_abandon", s.Job, tx.now); err != nil {
			return err
		}
		if _, err := tx.Exec("run_abandon", s.Job, tx.now); err != nil {
			return err
		}
		var err error
		r.id, err = tx.Insert("run_add", s.Job, s.Scheduled, tx.now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Restart implements [Run].
func (r *run) Restart(ctx context.Context, work string) (cur Cursor, err error) {
	err = r.change(ctx, "restart "+work+" of "+r.job, func(tx *tx) error {
		if cur, err = tx.cursor(r.job, work); err != nil {
			return err
		}
		cur.Restart()
		return tx.saveCursor(&cur)
	})
	return cur, err
}

// EndWork implements [Run].
func (r *run) EndWork(ctx context.Context, work, region string, o Outcome) error {
	return r.change(ctx, "end "+work+" of "+r.job, func(tx *tx) error {
		cur, err := tx.cursor(r.job, work)
		if err != nil {
			return err
		}
		cur.End(o)
		if err := tx.saveCursor(&cur); err != nil {
			return err
		}
		_, err = tx.Exec("work_end", r.id, work, region, string(o.State), tx.now, o.ResumeAt, validText(o.Error), o.Units, o.Cause, o.Pool, o.Refused)
		return err
	})
}

// End implements [Run].
func (r *run) End(ctx context.Context, o Outcome) error {
	return r.change(ctx, "end a run of "+r.job, func(tx *tx) error {
		_, err := tx.Exec("run_end", r.id, string(o.State), tx.now, o.ResumeAt, validText(o.Error))
		return err
	})
}
