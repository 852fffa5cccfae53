package quota

import (
	"context"
	"errors"
)

// owed is a reservation of a hold that must be settled to the units drawn from it,
// because the rest was taken again.
type owed struct {
	token Token
	spent Units
}

// begin waits until no other call takes units again or closes the hold.
func (h *Hold) begin(ctx context.Context) bool {
	select {
	case h.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (h *Hold) end() { <-h.busy }

// takeLate is take for a late call: it first takes the rest of the hold again.
func (h *Hold) takeLate(ctx context.Context, id string, d *drawn, charges []Charge) (*localCharge, error) {
	if !h.begin(ctx) {
		return nil, nil
	}
	defer h.end()
	taken, late := h.take(h.ledger.clock.Now(), id, d, charges, false)
	if !late {
		return taken, nil
	}
	ok, err := h.move(ctx)
	if ok {
		taken, _ = h.take(h.ledger.clock.Now(), id, d, charges, true)
	}
	return taken, err
}

// move takes the rest of the hold again, now, and then settles the old reservation to the
// units drawn from it. In this order no other caller gets the units in between. It needs
// no room in the windows, because the units count already. Observers are not called,
// because no more is spent. If the store's reply is lost, the units count twice. If
// settling fails, they count twice until Close.
func (h *Hold) move(ctx context.Context) (ok bool, err error) {
	l := h.ledger
	charges, ok := h.beginMove()
	if !ok {
		return false, nil
	}
	taken, mark := l.clock.Now(), l.shut.noted.Load()
	v, err := l.store.Reserve(ctx, Request{ID: l.ids.next(), Fresh: true, Charges: charges, Labels: h.call.labels()})
	if err == nil {
		l.shut.learn(&v, charges, v.ID, mark)
	} else {
		err = l.storeError(ctx, "reserve "+charges[0].Pool.String(), err)
	}
	h.mu.Lock()
	h.moving = false
	if ok = err == nil && v.Allowed; ok {
		h.owed = append(h.owed, owed{h.r.Verdict.Token(), unitsOf(h.r.price.charges, h.gone())})
		h.r = &Reservation{Verdict: v, ledger: l, price: &price{charges: charges}}
		h.taken, h.slack = taken, slack(v.At, charges)
	}
	h.mu.Unlock()
	if ok {
		_ = h.pay(ctx) // Close tries again
	}
	return ok, err
}

// beginMove returns the rest of the hold as charges that always fit. Until the move is
// over, no call draws and no units come back.
func (h *Hold) beginMove() ([]Charge, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	charges := make([]Charge, len(h.left))
	for i := range charges {
		c, err := h.prices.pool(h.r.price.charges[i].Pool)
		if err != nil {
			return nil, false
		}
		c.Units, c.Lease = h.left[i], Lease{}
		c.unlimited()
		charges[i] = c
	}
	h.moving = true
	return charges, true
}

// pay settles the reservations in owed. The caller must have called begin.
func (h *Hold) pay(ctx context.Context) error {
	h.mu.Lock()
	all := h.owed
	h.mu.Unlock()
	for i, o := range all {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		_, err := h.ledger.store.Settle(within, o.token, o.spent)
		cancel()
		if err != nil && !errors.Is(err, ErrNoReceipt) { // without its receipt it counts as spent
			return h.ledger.storeError(context.WithoutCancel(ctx), "settle a hold of "+o.token.Upstream, err)
		}
		h.ledger.refusals.clear()
		h.mu.Lock()
		h.owed = all[i+1:]
		h.mu.Unlock()
	}
	return nil
}
