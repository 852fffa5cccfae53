package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Work that the quota has deferred goes on at the time that the ledger named. A block
// ends at its time, too, but a person may lift it before. So work that a block has
// deferred goes on as soon as the ledger says that the pool is open: in every process,
// wherever the block was lifted. To ask costs no unit.

// ResumeAt returns when the first work of a job that was deferred can go on, or zero.
// Open reports whether a pool is open; nil asks the ledger.
func (r *Runner) ResumeAt(ctx context.Context, j *Job, open func(pool string) bool) (first time.Time, err error) {
	works := r.works(j)
	if err := r.stalest(ctx, j, works); err != nil {
		return first, fmt.Errorf("read the cursors of %s: %w", j.Name, err)
	}
	if open == nil {
		open = r.opened(ctx, j)
	}
	now := r.clock.Now()
	for _, w := range works {
		if at := w.resumeAt(now, open); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, nil
}

// NextAt returns when a job goes on with what was deferred, or is due again, whichever
// comes first.
func (r *Runner) NextAt(ctx context.Context, j *Job) (time.Time, error) {
	next, err := r.ResumeAt(ctx, j, nil)
	if due := j.schedule.Next(r.clock.Now()); next.IsZero() || due.Before(next) {
		next = due
	}
	return next, err
}

// resumeAt is when work that was deferred can go on; zero if it was not.
func (w *Work) resumeAt(now time.Time, open func(pool string) bool) time.Time {
	if at := w.cursor.ResumeAt; w.cursor.BlockedOn == "" || !at.After(now) || !open(w.cursor.BlockedOn) {
		return at
	}
	return now
}

// opened returns what asks the ledger whether a pool of the job's account is open. It
// asks for all of them at once, and only if it is called. What the ledger cannot say is
// not open.
func (r *Runner) opened(ctx context.Context, j *Job) func(pool string) bool {
	var pools []quota.Usage
	asked := false
	return func(pool string) bool {
		if !asked {
			asked = true
			pools, _ = r.ledger.Usage(ctx, j.Kind.Upstream(), account(j)) // of none nothing is known
		}
		for i := range pools {
			if p := &pools[i]; p.Pool.String() == pool {
				return !p.Blocked.After(p.Now)
			}
		}
		return false
	}
}
