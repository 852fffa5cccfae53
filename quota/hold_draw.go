package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// drawn holds the units that one call has taken from a hold.
type drawn struct {
	hold   *Hold
	from   *Reservation // the hold's at the time
	units  []int64      // by charge of the call
	index  []int        // of the hold's charge, by charge of the call
	labels Labels
	name   string   // the caller's id
	id     string   // for charging more than was drawn
	short  []Charge // still to be charged
	done   *Settlement
}

// drawn takes a call's units from the hold of its context. It returns nil if there is none, or if the hold cannot pay: it belongs to another ledger or account, a pool
// is not held or is blocked, too little is left, it has ended or was closed, the id drew
// other units before, or the call is invalid. The caller then reserves, which returns
// the reason. An error is returned only for an outage, which reserving would meet again, and for
// a call that another one goes before, or that is spaced, or that a learned rate holds back.
func (l *Ledger) drawn(ctx context.Context, h *Hold, c *Call) (*Reservation, error) {
	if h == nil || h.ledger != l || ctx.Err() != nil || c.ID != "" && !validID(c.ID) {
		return nil, nil
	}
	labels := c.labels()
	price, err := l.prices.Load().lookup(c)
	if err != nil || len(price.charges) == 0 || labels.check() != nil || l.shut.stands(l.now(), price.charges) {
		return nil, nil
	}
	d := &drawn{hold: h, id: l.ids.next(), labels: labels}
	id := cmp.Or(c.ID, d.id)
	before, anew, err := l.passes(ctx, c, id, price, nil)
	switch {
	case err != nil:
		return nil, nil // reserving meets it again
	case before != nil:
		return nil, refusal(c, *before)
	}
	taken, late := h.take(l.clock.Now(), c.ID, d, price.charges, false)
	if late {
		taken, err = h.takeLate(ctx, c.ID, d, price.charges)
	}
	switch {
	case errors.Is(err, ErrOutage):
		l.notSent(price.charges[0].Pool, id, anew)
		l.heard.notSpaced(price)
		r, failed := l.admit(ctx, c, price, id, err)
		return r, l.unseen(ctx, c, r, err, failed)
	case taken == nil:
		l.notSent(price.charges[0].Pool, id, anew)
		l.heard.notSpaced(price)
		return nil, nil
	}
	l.heard.drew(price.charges, l.current(), l.now())
	v := h.verdict
	v.ID, v.Nonce, v.Repeat, v.Rebased = cmp.Or(c.ID, d.id), [16]byte{}, taken.drawn != d, false
	v.Units = 0
	for i := range price.charges {
		if price.charges[i].Pool == v.Pool {
			v.Units = price.charges[i].Units
		}
	}
	if v.Units == 0 { // the hold's verdict speaks of a pool that this call does not charge
		first := &price.charges[0]
		v = Verdict{Allowed: true, ID: v.ID, Pool: first.Pool, Units: first.Units, At: v.At, Repeat: v.Repeat, Outage: v.Outage}
	}
	l.tell(ctx, Event{Kind: EventDrawn, Call: *c, Pool: v.Pool, Verdict: v})
	return &Reservation{Verdict: v, ledger: l, price: price, local: taken}, nil
}

// take takes charges from what is left: all or none. An id that has drawn them before
// gets what it got then; nil is that it gets nothing, or late: it must be taken again
// first. fresh is that it was just now.
func (h *Hold) take(now time.Time, id string, d *drawn, charges []Charge, fresh bool) (taken *localCharge, late bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shorten(); h.closed || !h.made.Round(0).Add(elapsed(h.made, now)).Before(h.ends) {
		return nil, false
	}
	if before := h.drawn[id]; before != nil {
		if !before.drawn.covers(charges) {
			return nil, false
		}
		return before, false
	}
	d.index, d.units = nil, nil
	for i := range charges {
		j := h.index(&charges[i])
		if j < 0 {
			return nil, false
		}
		d.index = append(d.index, j)
		d.units = append(d.units, charges[i].Units)
	}
	if !fresh && (h.moving || elapsed(h.taken, now) > h.slack) {
		return nil, true
	}
	for i, j := range d.index {
		h.left[j] -= d.units[i]
	}
	d.from, taken = h.r, &localCharge{drawn: d}
	if id != "" {
		if h.drawn == nil {
			h.drawn = make(map[string]*localCharge)
		}
		d.name, h.drawn[id] = id, taken
	}
	return taken, false
}

// covers reports whether a call has drawn exactly these charges.
func (d *drawn) covers(charges []Charge) bool {
	if len(charges) != len(d.units) {
		return false
	}
	for i, j := range d.index {
		if d.from.price.charges[j].Pool != charges[i].Pool || d.units[i] != charges[i].Units {
			return false
		}
	}
	return true
}

// index finds the hold's charge that can pay for c, or -1.
func (h *Hold) index(c *Charge) int {
	for j := range h.left {
		if h.r.price.charges[j].Pool == c.Pool && h.left[j] >= c.Units {
			return j
		}
	}
	return -1
}

// settle corrects what a call drew. Surplus units go back to the hold if it is open and
// its units were not taken again since. Missing units come from the hold while it has
// some. The rest is charged now.
func (d *drawn) settle(ctx context.Context, r *Reservation, units []int64) (Settlement, error) {
	if d.done == nil {
		d.done = d.correct(r, units)
	}
	if len(d.short) > 0 {
		if err := r.ledger.chargeLate(ctx, d.id, d.short, d.labels); err != nil {
			return Settlement{}, err
		}
		d.short = nil
	}
	return *d.done, nil
}

// correct moves units between the call and the hold, and notes those still to be charged.
func (d *drawn) correct(r *Reservation, units []int64) *Settlement {
	var s Settlement
	h := d.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Max(units) == 0 {
		delete(h.drawn, d.name) // another try under the id draws as if it were the first
	}
	for i, j := range d.index {
		switch over := d.units[i] - units[i]; {
		case over > 0 && (h.closed || h.moving || d.from != h.r):
			s.Left += over
		case over > 0:
			h.left[j] += over
			s.Back += over
		case over < 0:
			s.Charged -= over
			from := min(-over, h.left[j])
			if h.moving {
				from = 0
			}
			h.left[j] -= from
			if c := r.price.charges[i]; -over > from {
				c.Units = -over - from
				d.short = append(d.short, c)
			}
		}
	}
	return &s
}

// chargeLate charges what a settled call has cost beyond what its receipt has, with the windows of
// the current price book. A pool that the book no longer has keeps its windows. The id is of the
// charge, and always the same, so that trying again charges once.
func (l *Ledger) chargeLate(ctx context.Context, id string, charges []Charge, by Labels) error {
	prices, now := l.prices.Load(), slices.Clone(charges)
	for i := range now {
		if c, err := prices.pool(now[i].Pool); err == nil {
			c.Units = now[i].Units
			now[i] = c
		}
	}
	ctx = context.WithoutCancel(ctx)
	within, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if _, err := l.store.Record(within, Request{ID: id, Charges: now, Labels: by}); err != nil {
		return l.storeError(ctx, "settle "+now[0].Pool.String(), err)
	}
	return nil
}
