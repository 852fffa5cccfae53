package ingest

import (
	"context"
	"errors"

	"github.com/headroom-quota/headroom/quota"
)

// upstreamName is what the price book calls the upstream.
const upstreamName = "youtube"

// ask asks the ledger what is free before anything begins: with nothing to spend the
// run ends at once, having called nobody. What the ledger cannot say is left to the
// calls, each of which asks for itself.
func (r *run) ask(ctx context.Context) {
	row := r.job.Kind.row()
	if len(r.works) == 0 || !row.asks {
		return
	}
	call := quota.Call{Upstream: row.upstream, Account: r.job.Account, Method: row.methods[0], Class: r.job.Class, Job: r.job.Name}
	if r.free(ctx, &call) {
		return
	}
	// Usage is of ordinary callers, and of what comes back next; of this call, and
	// of when it could be made, the ledger itself says more.
	taken, err := r.ledger.Reserve(ctx, call)
	if err == nil {
		if _, err := taken.Release(context.WithoutCancel(ctx)); err != nil {
			r.log.Warn("give back what was not called", "error", err)
		}
		return
	}
	var refused *quota.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter <= r.maxWait && !r.late(refused.RetryAfter) {
		return
	}
	r.log.Info("nothing to spend", "pool", refused.Pool.String(), "left", refused.Remaining, "resume_at", refused.RetryAt)
	r.halt(err)
}

// free reports whether every pool that a call charges has room for it, for all that
// is known.
func (r *run) free(ctx context.Context, call *quota.Call) bool {
	upstream := r.ledger.Book().Upstreams[call.Upstream]
	if upstream == nil || upstream.Methods[call.Method] == nil {
		return true
	}
	pools, err := r.ledger.Usage(ctx, call.Upstream, account(r.job))
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
