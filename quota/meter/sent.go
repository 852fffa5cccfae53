package meter

import (
	"context"
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
func (c *call) settle(resp *http.Response, err error) {
	conns := c.sent.conns.Load()
	if c.granted == nil || c.fixed && err == nil && conns <= 1 { // it continues an upload, or nothing changes
		return
	}
	answered := err == nil && resp != nil
	if answered {
		c.freePools, c.free = c.costless(resp)
	}
	switch {
	case err != nil && c.sent.unsent():
		c.giveBack()
	case c.free && c.slots == 0:
		c.settleTo(quota.Units{}, reserved(c.granted))
	case answered && (c.content != nil || c.slots > 0):
		c.follow(resp)
	case len(c.freePools) > 0:
		c.settleTo(reserved(c.granted), reserved(c.granted))
	case conns > 1:
		all := reserved(c.granted)
		for pool := range all {
			all[pool] *= conns
		}
		c.settleNow(all)
	default:
		c.done()
	}
}

// costless returns the pools in which the upstream does not charge for an answer, or true if
// it does in none.
func (c *call) costless(resp *http.Response) (pools []string, all bool) {
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
func (c *call) settleTo(units, reserved quota.Units) {
	tries := c.sent.conns.Load() - 1
	same := true
	for _, pool := range c.freePools {
		if _, charged := units[pool]; charged {
			units[pool] = 0
		}
	}
	for pool, n := range reserved {
		units[pool] = min(units[pool]+n*max(tries, 0), window.MaxUnits)
		same = same && units[pool] == n
	}
	same = same && !c.atEnd
	if same && c.slots == 0 {
		c.done()
		c.content.settled()
		return
	}
	c.t.later.do(func() {
		defer c.content.settled()
		if same {
			c.done()
		} else {
			c.settleNow(units)
		}
	})
}

// settleNow settles a call, and gives back its slots.
func (c *call) settleNow(units quota.Units) {
	record, keys, granted := charged.Of(c.context()), c.keys, c.granted
	budget, more := c.caller.Budget, spending{}
	if budget != nil {
		before := reserved(granted)
		if _, named := units[book.Money]; !named {
			delete(before, book.Money) // it stands
		}
		more = c.spends(units, before)
	}
	c.pay(units, func() {
		record.Settle(keys, granted, units)
		budget.add(more)
	})
}

// pay settles a call, now or when the ledger answers again. After it, then is called once.
func (c *call) pay(units quota.Units, then func()) {
	d := &debt{t: c.t, ctx: context.WithoutCancel(c.context()), granted: c.granted, units: units, then: then}
	if err := d.pay(); err != nil {
		c.owe(d, err)
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
func (c *call) done() {
	if err := c.granted.Done(c.context()); err != nil {
		d := &debt{t: c.t, ctx: context.WithoutCancel(c.context()), granted: c.granted}
		d.settled.Store(true)
		c.owe(d, err)
	}
}

// giveBack releases a call that was not sent.
func (c *call) giveBack() {
	c.refund()
	record, keys, granted := charged.Of(c.context()), c.keys, c.granted
	c.pay(nil, func() { record.Settle(keys, granted, nil) })
}
