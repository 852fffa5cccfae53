package quota

import (
	"context"
	"errors"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// In mode observe a call of an upstream is never refused. A call that would have been is
// let through, and its units are recorded whatever the limits. An [EventObserved] says
// why it would have been refused. Bad input and a cancelled context stay errors.

// observes reports whether an upstream's calls are counted and never refused.
func (p *prices) observes(upstream string) bool {
	u := p.book.Upstreams[upstream]
	return u != nil && u.Mode == book.Observe
}

// observes reports whether a call is let through, whatever is left.
func (l *Ledger) observes(c *Call) bool {
	return c.Family == "" && l.prices.Load().observes(c.Upstream)
}

// overlook returns the price of a call that is let through although it could never be
// granted, or has no price.
func (p *prices) overlook(c *Call, made *price, err error) (*price, error) {
	switch {
	case c.Family != "" || !p.observes(c.Upstream):
	case made != nil && errors.Is(err, ErrImpossible):
		return made, nil
	case errors.Is(err, ErrUnpriced):
		return &price{err: err}, nil
	}
	return made, err
}

// excused reports whether a call is let through although reserving it failed: the ledger
// is down, has lost data, or has seen a newer book.
func (l *Ledger) excused(ctx context.Context, c *Call, err error) bool {
	known := errors.Is(err, ErrOutage) || errors.Is(err, ErrStaleBook) || errors.Is(err, ErrRefused)
	return known && l.observes(c) && ctx.Err() == nil
}

// letThrough records the units of a call that is refused. It takes no slots: nobody would
// give back those beyond the limit.
func (l *Ledger) letThrough(ctx context.Context, c *Call, p *price, no Verdict) (*Reservation, error) {
	own := *p
	if p, own.charges = &own, withoutSlots(p.charges); len(own.charges) == 0 {
		return &Reservation{Verdict: Verdict{Allowed: true, ID: no.ID, At: no.At}, ledger: l, price: p}, nil
	}
	_, err := l.store.Record(ctx, Request{ID: no.ID, Charges: p.charges, Labels: c.labels()})
	if err != nil {
		err = l.storeError(ctx, "record "+p.charges[0].Pool.String(), err)
		if !l.excused(ctx, c, err) {
			return nil, l.failed(ctx, c, err)
		}
		return l.uncounted(ctx, c, p, no.ID, no.At, err), nil
	}
	return l.observed(p, no.ID, no.At, true), nil
}

// uncounted lets a call through that the ledger cannot record.
func (l *Ledger) uncounted(ctx context.Context, c *Call, p *price, id string, at time.Time, why error) *Reservation {
	r := l.observed(p, id, at, false)
	l.tell(ctx, Event{Kind: EventObserved, Call: *c, Pool: r.Pool, Verdict: r.Verdict, Err: why})
	return r
}

// observed returns the reservation of a call that is let through.
func (l *Ledger) observed(p *price, id string, at time.Time, recorded bool) *Reservation {
	first := &p.charges[0]
	v := Verdict{Allowed: true, ID: id, Pool: first.Pool, Units: first.Units, At: at}
	return &Reservation{Verdict: v, ledger: l, price: p, local: &localCharge{observed: true, recorded: recorded}}
}
