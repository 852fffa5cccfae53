package meter

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/headroom-quota/headroom/quota"
)

// sent records whether a request may have been sent. Other goroutines may call its hooks
// after the round trip has ended.
type sent struct {
	trace httptrace.ClientTrace
	asked atomic.Bool  // a connection was asked for
	conns atomic.Int64 // connections that it got: each may have carried the request
}

// watch returns a context whose requests call the hooks of s. A caller's trace in ctx
// still works, but does not see the key.
func (s *sent) watch(ctx context.Context, keyHeader string) context.Context {
	s.trace.GetConn = func(string) { s.asked.Store(true) }
	s.trace.GotConn = func(httptrace.GotConnInfo) { s.conns.Add(1) }
	ctx = httptrace.WithClientTrace(ctx, &s.trace)
	if wrote := s.trace.WroteHeaderField; wrote != nil && keyHeader != "" { // it has been joined with the caller's
		keyHeader = http.CanonicalHeaderKey(keyHeader)
		s.trace.WroteHeaderField = func(name string, values []string) {
			if http.CanonicalHeaderKey(name) == keyHeader {
				values = []string{"(hidden)"}
			}
			wrote(name, values)
		}
	}
	return ctx
}

// unsent reports whether a failed request was certainly never sent: it asked for a
// connection and got none. It is false for a base transport that does not report this.
func (s *sent) unsent() bool { return s.asked.Load() && s.conns.Load() == 0 }

// settle corrects the charge of a call if it is known to be wrong. Otherwise the charge
// stays, also for a failed call, because the server may have received it.
func (t *Transport) settle(ctx context.Context, c *call, r *quota.Reservation, err error) {
	if r == nil {
		return // it continues an upload
	}
	switch conns := c.sent.conns.Load(); {
	case err != nil && c.sent.unsent():
		t.giveBack(ctx, c, r)
	case conns > 1: // net/http repeats a request on another connection if the first one was dead
		all := r.Charges()
		for pool := range all {
			all[pool] *= conns
		}
		if _, err := r.Settle(ctx, all); err != nil {
			t.logUnsettled(ctx, c, err)
		}
	}
}

// giveBack releases a call that was never sent.
func (t *Transport) giveBack(ctx context.Context, c *call, r *quota.Reservation) {
	c.caller.budget.give(c.units())
	if _, err := r.Release(ctx); err != nil {
		t.logUnsettled(ctx, c, err)
	}
}

// logUnsettled logs that the ledger's count of a call is wrong. The caller does not get
// this error, but the call's own answer or error.
func (t *Transport) logUnsettled(ctx context.Context, c *call, err error) {
	t.log.LogAttrs(ctx, slog.LevelWarn, "call not settled", append(c.attrs(), slog.String("error", err.Error()))...)
}
