package meter

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/headroom-quota/headroom/quota"
)

// sent watches whether a request can have left. Its hooks may be called after the
// round trip has ended, from other goroutines.
type sent struct {
	trace httptrace.ClientTrace
	asked atomic.Bool  // a connection was asked for
	conns atomic.Int64 // and got: each may have carried the request
}

// watch returns a context that tells s. A trace that the caller has in ctx goes on,
// but is not shown the key.
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
		return // goes on with an upload
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

// giveBack releases a call that never left.
func (t *Transport) giveBack(ctx context.Context, c *call, r *quota.Reservation) {
	c.caller.budget.give(c.units())
	if _, err := r.Release(ctx); err != nil {
		t.logUnsettled(ctx, c, err)
	}
}

// logUnsettled says that the ledger has a wrong count of a call, whose own error or
// answer is what its caller gets.
func (t *Transport) logUnsettled(ctx context.Context, c *call, err error) {
	t.log.LogAttrs(ctx, slog.LevelWarn, "call not settled", append(c.attrs(), slog.String("error", err.Error()))...)
}
