package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// upstreamName is what the price book calls the upstream.
const upstreamName = "youtube"

// CheckQuota checks before a run whether the ledger has units for a first call. It returns
// the refusal if it has none, so that the run ends at once, without a call. If the ledger
// does not answer, the calls find out: each of them reserves its units.
func (r *Run) CheckQuota(ctx context.Context) error {
	row := r.job.Kind.row()
	if r.state.Works == 0 || !row.asks {
		return nil
	}
	call := quota.Call{Upstream: upstreamName, Account: r.job.Account, Method: row.methods[0], Class: r.job.Class, Job: r.job.Name}
	if r.hasRoom(ctx, &call) {
		return nil
	}
	// Usage covers ordinary callers. Only a reservation says whether and when this call,
	// with its class, can be made.
	taken, err := r.ledger.Reserve(ctx, call)
	if err == nil {
		if _, err := taken.Release(context.WithoutCancel(ctx)); err != nil {
			r.log.Warn("release the units of a trial reservation", "error", err)
		}
		return nil
	}
	refused, is := errors.AsType[*quota.RefusedError](err)
	if !is || refused.RetryAfter <= r.maxWait && !r.late(refused.RetryAfter) {
		return nil
	}
	r.log.Info("nothing to spend", "pool", refused.Pool.String(), "left", refused.Remaining, "resume_at", refused.RetryAt)
	return err
}

// hasRoom reports whether every pool that a call charges has room for it. It reports true if
// that is unknown.
func (r *Run) hasRoom(ctx context.Context, call *quota.Call) bool {
	upstream := r.ledger.Book().Upstreams[call.Upstream]
	if upstream == nil || upstream.Methods[call.Method] == nil {
		return true
	}
	pools, err := r.ledger.View().Usage(ctx, call.Upstream, account(r.job))
	if err != nil {
		return true
	}
	charges := upstream.Methods[call.Method].Charges
	for _, p := range pools {
		units := charges[p.Pool.Name]
		if units == 0 {
			continue
		}
		if p.Now.Before(p.Blocked) {
			return false
		}
		for _, w := range p.Allowances {
			if w.Remaining < units {
				return false
			}
		}
	}
	return true
}

// attempts is how often a call is made that fails temporarily. Each attempt is metered.
const attempts = 3

// refusals is how often a call is made that the upstream refuses. The ledger lets it through each time:
// while a limit is learned, such calls find out when there is room.
const refusals = 8

// pause is the wait before the second attempt. It triples with each attempt.
const pause = time.Second

// fetch fetches the next page of a unit of work. It retries temporary failures, and restarts
// a pass whose page token has expired.
func (r *Run) fetch(ctx context.Context, w *Work) (*catalog.Page, error) {
	refused := 0
	for restarted := false; ; {
		page, err := r.call(ctx, w)
		switch {
		case err == nil:
			return page, nil
		case r.abort.Err() != nil:
			return nil, ErrInterrupted
		case errors.Is(err, youtube.ErrPageToken) && w.cursor.Begun() && !restarted:
			restarted = true
			err = r.restart(w, err)
		case youtube.Temporary(err) && (w.Attempts+1 < attempts || youtube.Refused(err) && refused < refusals):
			wait := pause
			for range min(w.Attempts+refused, attempts-1) {
				wait *= 3
			}
			if youtube.Refused(err) {
				refused++
			} else {
				w.Attempts++
			}
			if r.late(wait) {
				return nil, err
			}
			r.count()
			r.log.Debug("retrying", "work", w.Name, "attempt", w.Attempts+1, "error", err)
			err = r.clock.Sleep(ctx, r.jittered(wait))
		default:
			return nil, err
		}
		if ctx.Err() != nil || err == nil && r.passed(w.until) {
			return nil, errAgain
		}
		if err != nil {
			return nil, err
		}
	}
}

// restart restarts the pass of a unit of work. Either its page token has expired, or the
// data that the pass had fetched.
func (r *Run) restart(w *Work, why error) (err error) {
	r.log.Info("restarting the pass", "work", w.Name, "because", why)
	if w.cursor, err = r.record.Restart(context.WithoutCancel(r.abort), w.Name); err != nil {
		return unsaved(err)
	}
	return nil
}

// call fetches a page once. A call that has started is finished even if the run is stopped,
// because its units are spent. A program is asked to stop.
func (r *Run) call(run context.Context, w *Work) (*catalog.Page, error) {
	ctx := meter.WithJob(meter.WithBudget(w.calls, w.budget), r.job.Name)
	if w.Region != "" {
		ctx = meter.WithRegion(ctx, w.Region)
	}
	if r.job.Class != "" {
		ctx = meter.WithClass(ctx, r.job.Class)
	}
	if r.job.Account != "" {
		ctx = meter.WithAccount(ctx, r.job.Account)
	}
	defer w.spend()
	if w.fetch == nil {
		return r.program(run, ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.callTimeout)
	defer cancel()
	return w.fetch(ctx, w.cursor)
}

// spend counts what its calls have cost since it was called last.
func (w *Work) spend() {
	now, fresh := w.budget.Pools(), catalog.Charges{}
	for pool, units := range now {
		fresh[pool] = units
	}
	for pool, units := range w.spent {
		fresh[pool] -= units
	}
	w.spent = now
	w.Units, w.Unsaved = w.Units+fresh.Sum(), w.Unsaved+fresh.Sum()
	w.Charges.Add(fresh)
	w.Owed.Add(fresh)
}

// counter is a [catalog.Run] that other processes work on, too. Count tells them what the
// calls cost that returned no page.
type counter interface {
	Count(ctx context.Context) error
}

// count tells other processes what a failed call cost. If it fails, the next page tells them.
func (r *Run) count() {
	if c, ok := r.record.(counter); ok {
		if err := c.Count(context.WithoutCancel(r.abort)); err != nil {
			r.log.Debug("count a failed call", "error", err)
		}
	}
}
