package meter

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// caller describes the caller of a context: its account, labels, outage policy and budget.
type caller struct {
	account, class, job, region string
	outage                      quota.Policy
	budget                      *Budget
	maxWait                     *time.Duration // nil: that of the transport
}

type callerKey struct{}

// nobody is the caller of a context that says nothing.
var nobody caller

// callerOf returns the caller of a context, which must not be changed.
func callerOf(ctx context.Context) *caller {
	if c, _ := ctx.Value(callerKey{}).(*caller); c != nil {
		return c
	}
	return &nobody
}

// with returns a context whose caller differs from that of ctx.
func with(ctx context.Context, change func(*caller)) context.Context {
	c := *callerOf(ctx)
	change(&c)
	return context.WithValue(ctx, callerKey{}, &c)
}

// WithAccount says by whom the upstream counts the calls of a context. It wins over
// [Options].Account.
func WithAccount(ctx context.Context, account string) context.Context {
	return with(ctx, func(c *caller) { c.account = account })
}

// AccountOf returns the account that [WithAccount] put into a context, or "". The source of
// the key "upstream@*" finds there whose key is wanted.
func AccountOf(ctx context.Context) string { return callerOf(ctx).account }

// WithClass says what kind of caller makes the calls of a context: a class of the
// price book.
func WithClass(ctx context.Context, class string) context.Context {
	return with(ctx, func(c *caller) { c.class = class })
}

// WithJob says for which job the calls of a context are made: a label of their
// spend.
func WithJob(ctx context.Context, job string) context.Context {
	return with(ctx, func(c *caller) { c.job = job })
}

// WithRegion says for which region the calls of a context are made: a label of
// their spend.
func WithRegion(ctx context.Context, region string) context.Context {
	return with(ctx, func(c *caller) { c.region = region })
}

// WithOutage says what to do with the calls of a context while the ledger cannot be
// reached, whatever their class or method says.
func WithOutage(ctx context.Context, p quota.Policy) context.Context {
	return with(ctx, func(c *caller) { c.outage = p })
}

// WithMaxWait says how long a refused call of a context may wait for its units. It replaces
// [Options].MaxWait.
func WithMaxWait(ctx context.Context, d time.Duration) context.Context {
	return with(ctx, func(c *caller) { c.maxWait = &d })
}
