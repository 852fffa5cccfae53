package ingest

import (
	"context"
	"errors"

	"github.com/headroom-quota/headroom/quota"
)

// upstreamName is what the price book calls the upstream.
const upstreamName = "youtube"

// firstCall is the method that any work of a kind begins with. Stats and retention
// are not here: they call only if something is old enough, and nobody knows that
// before.
var firstCall = map[Kind]string{
	Trending: "videos.list",
	Search:   "search.list",
	Uploads:  "playlistItems.list",
}

// ask asks the ledger what is free before anything begins: with nothing to spend the
// run ends at once, having called nobody. What the ledger cannot say is left to the
// calls, each of which asks for itself.
func (r *run) ask(ctx context.Context) {
	call := quota.Call{
		Upstream: upstreamName, Account: r.job.Account, Method: firstCall[r.job.Kind],
		Class: r.job.Class, Job: r.job.Name,
	}
	if len(r.works) == 0 || call.Method == "" || r.free(ctx, &call) {
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
	upstream := r.ledger.Book().Upstreams[upstreamName]
	if upstream == nil || upstream.Methods[call.Method] == nil {
		return true
	}
	pools, err := r.ledger.Usage(ctx, upstreamName, account(r.job))
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
