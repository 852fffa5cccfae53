package ingest

import (
	"context"
	"errors"

	"github.com/headroom-quota/headroom/quota"
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
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter <= r.maxWait && !r.late(refused.RetryAfter) {
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
