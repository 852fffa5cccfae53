package meter

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
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

// settle corrects the charge of a call if it is known to be wrong, or will be known when
// its answer was read. Otherwise the charge stays, also for a failed call, because the
// server may have received it.
func (t *Transport) settle(ctx context.Context, c *call, r *quota.Reservation, resp *http.Response, err error) {
	if r == nil || c.fixed && err == nil && c.sent.conns.Load() <= 1 { // it continues an upload, or nothing changes
		return
	}
	h := charge{t: t, ctx: ctx, c: c, r: r}
	if err == nil && resp != nil {
		h.freePools, h.free = c.free(resp)
	}
	switch conns := c.sent.conns.Load(); {
	case err != nil && c.sent.unsent():
		t.giveBack(ctx, c, r)
		h.done()
	case h.free && h.c.slots == 0:
		h.settleTo(quota.Units{}, reserved(r))
	case err == nil && resp != nil && (c.content != nil || h.c.slots > 0):
		h.follow(resp)
	case len(h.freePools) > 0:
		h.settleTo(reserved(r), reserved(r))
	case conns > 1:
		all := reserved(r)
		for pool := range all {
			all[pool] *= conns
		}
		h.settleNow(all)
		h.done()
	default:
		h.done()
	}
}

// free returns the pools in which the upstream does not charge for an answer, or true if
// it does in none.
func (c *call) free(resp *http.Response) (pools []string, all bool) {
	if c.upstream.FailedFree && resp.StatusCode >= 500 {
		return nil, true
	}
	for i := range c.upstream.Free {
		if f := &c.upstream.Free[i]; meets(&f.Condition, resp) {
			if f.Pools == nil {
				return nil, true
			}
			pools = append(pools, f.Pools...)
		}
	}
	return pools, false
}

// settleTo settles a call to what it has cost, behind its caller's back. A pool that is
// missing in units has cost nothing. Net/http repeats a request on another connection if
// the first one was dead; each of these tries counts as it was reserved.
func (h charge) settleTo(units, reserved quota.Units) {
	tries := h.c.sent.conns.Load() - 1
	same := true
	for _, pool := range h.freePools {
		if _, charged := units[pool]; charged {
			units[pool] = 0
		}
	}
	for pool, n := range reserved {
		units[pool] = min(units[pool]+n*max(tries, 0), window.MaxUnits)
		same = same && units[pool] == n
	}
	same = same && !h.c.atEnd
	if same && h.c.slots == 0 {
		h.done()
		h.c.content.settled()
		return
	}
	h.t.later.do(func() {
		defer h.c.content.settled()
		if same {
			h.done()
			return
		}
		h.settleNow(units)
		h.done()
	})
}

func (h charge) settleNow(units quota.Units) {
	if _, err := h.r.Settle(h.ctx, units); err != nil {
		h.t.logUnsettled(h.ctx, h.c, err)
		return
	}
	charged.Of(h.ctx).Settle(h.c.keys, h.r, units)
	if b := h.c.caller.Budget; b != nil {
		before := reserved(h.r)
		if _, named := units[book.Money]; !named {
			delete(before, book.Money) // it stands
		}
		b.add(h.c.spends(units, before))
	}
}

// reserved returns what a call has taken: the units of its pools, and its bill.
func reserved(r *quota.Reservation) quota.Units {
	all := r.Charges()
	if n, has := r.Bill(); has {
		all[book.Money] = n
	}
	return all
}

// done gives back the slots of a call, once nothing of it is under way any more: its answer
// has ended or was closed, or it has no answer.
func (h charge) done() {
	if err := h.r.Done(h.ctx); err != nil {
		h.t.logUnsettled(h.ctx, h.c, err)
	}
}

func (t *Transport) giveBack(ctx context.Context, c *call, r *quota.Reservation) {
	c.refund()
	if _, err := r.Release(ctx); err != nil {
		t.logUnsettled(ctx, c, err)
		return
	}
	charged.Of(ctx).Settle(c.keys, r, nil)
}

// logUnsettled logs that the ledger's count of a call is wrong. The caller does not get
// this error, but the call's own answer or error.
func (t *Transport) logUnsettled(ctx context.Context, c *call, err error) {
	t.set.Logger.LogAttrs(ctx, slog.LevelWarn, "call not settled", append(c.attrs(), slog.String("error", err.Error()))...)
}
