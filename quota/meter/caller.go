package meter

import (
	"context"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Caller says who makes the calls of a context. Each field has a function that sets it alone.
type Caller struct {
	Account string         // see [WithAccount]
	Class   string         // see [WithClass]
	Job     string         // see [WithJob]
	Region  string         // see [WithRegion]
	Outage  quota.Policy   // see [WithOutage]
	Budget  *Budget        // see [WithBudget]; nil: none
	MaxWait *time.Duration // see [WithMaxWait]; nil: that of the transport

	// Match is what the price book has found for the request, if that is known already: the
	// transport then need not match it again. It does so if the request or the book is another one.
	Match *book.Match

	// Spill is asked whether a call may go to another upstream, and then told that it goes there. It gets the request and the match
	// there. The account is that of the request's context. If Spill is nil, all may go that the price book lets go.
	Spill func(req *http.Request, m *book.Match, goes bool) bool
}

type callerKey struct{}

// nobody is the caller of a context that says nothing.
var nobody Caller

// callerOf returns the caller of a context, which must not be changed.
func callerOf(ctx context.Context) *Caller {
	if c, _ := ctx.Value(callerKey{}).(*Caller); c != nil {
		return c
	}
	return &nobody
}

// with returns a context whose caller differs from that of ctx.
func with(ctx context.Context, change func(*Caller)) context.Context {
	c := CallerOf(ctx)
	change(&c)
	return WithCaller(ctx, c)
}

// CallerOf returns the caller of a context. The source of the key "upstream@*" finds there whose
// key is wanted.
func CallerOf(ctx context.Context) Caller { return *callerOf(ctx) }

// WithCaller sets all that is known of the caller of a context at once.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, &c)
}

// WithAccount says by whom the upstream counts the calls of a context. It wins over
// [Options].Account.
func WithAccount(ctx context.Context, account string) context.Context {
	return with(ctx, func(c *Caller) { c.Account = account })
}

// WithClass says what kind of caller makes the calls of a context: a class of the
// price book.
func WithClass(ctx context.Context, class string) context.Context {
	return with(ctx, func(c *Caller) { c.Class = class })
}

// WithJob says for which job the calls of a context are made: a label of their
// spend.
func WithJob(ctx context.Context, job string) context.Context {
	return with(ctx, func(c *Caller) { c.Job = job })
}

// WithRegion says for which region the calls of a context are made: a label of
// their spend.
func WithRegion(ctx context.Context, region string) context.Context {
	return with(ctx, func(c *Caller) { c.Region = region })
}

// WithOutage says what to do with the calls of a context while the ledger cannot be
// reached, whatever their class or method says.
func WithOutage(ctx context.Context, p quota.Policy) context.Context {
	return with(ctx, func(c *Caller) { c.Outage = p })
}

// WithMaxWait says how long a refused call of a context may wait for its units. It replaces
// [Options].MaxWait.
func WithMaxWait(ctx context.Context, d time.Duration) context.Context {
	return with(ctx, func(c *Caller) { c.MaxWait = &d })
}
