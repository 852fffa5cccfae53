package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Work that the quota deferred resumes at the time that the ledger named. A block ends at a
// known time, too, but a person may lift it earlier. So work that a block deferred resumes
// as soon as the ledger reports the pool as open, in every process. Asking costs no units.

// ResumeAt returns when the first deferred work of a job can resume, or zero if no work was
// deferred. Open reports whether a pool is open. If open is nil, ResumeAt asks the ledger.
func (r *Runner) ResumeAt(ctx context.Context, j *Job, open func(pool string) bool) (first time.Time, err error) {
	works := r.works(j)
	if err := r.stalest(ctx, j, works); err != nil {
		return first, fmt.Errorf("read the cursors of %s: %w", j.Name, err)
	}
	if open == nil {
		open = r.Opened(ctx, j)
	}
	now := r.clock.Now()
	for _, w := range works {
		if at := w.ResumeAt(now, open); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, nil
}

// NextAt returns when a job resumes deferred work or is due again, whichever is first.
func (r *Runner) NextAt(ctx context.Context, j *Job) (time.Time, error) {
	next, err := r.ResumeAt(ctx, j, nil)
	if due := j.schedule.Next(r.clock.Now()); next.IsZero() || due.Before(next) {
		next = due
	}
	return next, err
}

// ResumeAt returns when deferred work can resume, or zero if it was not deferred.
func (w *Work) ResumeAt(now time.Time, open func(pool string) bool) time.Time {
	if at := w.cursor.ResumeAt; w.cursor.BlockedOn == "" || !at.After(now) || !open(w.cursor.BlockedOn) {
		return at
	}
	return now
}

// Opened returns a function that reports whether a pool of the job's account is open. At
// its first call it reads all pools from the ledger. If the ledger does not answer, no pool
// is open.
func (r *Runner) Opened(ctx context.Context, j *Job) func(pool string) bool {
	var pools []quota.Usage
	asked := false
	return func(pool string) bool {
		if !asked {
			asked = true
			for _, upstream := range j.upstreams(r.ledger.Book()) {
				some, _ := r.ledger.View().Usage(ctx, upstream, account(j)) // without an answer no pool is open
				pools = append(pools, some...)
			}
		}
		for i := range pools {
			if p := &pools[i]; p.Pool.String() == pool {
				return !p.Blocked.After(p.Now)
			}
		}
		return false
	}
}
