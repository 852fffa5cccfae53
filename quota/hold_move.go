package quota

import (
	"context"
	"errors"
	"slices"

	"github.com/headroom-quota/headroom/quota/window"
)

// owed is what a reservation of a hold is to be settled to, because the rest of it was
// taken again.
type owed struct {
	token Token
	spent Units
}

// begin waits until nobody else takes units again or closes the hold.
func (h *Hold) begin(ctx context.Context) bool {
	select {
	case h.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (h *Hold) end() { <-h.busy }

// takeLate is take for a call that leaves late: what is left is taken again first.
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

// move takes what is left again, now, and settles what it was taken with to what was
// drawn. In this order, so that nobody else gets the units in between; that needs no
// room in the windows, as the units count already. Observers are not told: nothing
// more is spent. If the store's answer is lost the units count twice, and if
// settling fails they do until Close.
func (h *Hold) move(ctx context.Context) (ok bool, err error) {
	l := h.ledger
	charges, ok := h.beginMove()
	if !ok {
		return false, nil
	}
	taken, mark := l.clock.Now(), l.shut.mark()
	v, err := l.store.Reserve(ctx, Request{ID: l.ids.next(), Fresh: true, Charges: charges, Labels: h.call.labels()})
	if err == nil {
		l.shut.learn(&v, charges, mark)
	} else {
		err = l.storeError(ctx, "reserve "+charges[0].Pool.String(), err)
	}
	h.mu.Lock()
	h.moving = false
	if ok = err == nil && v.Allowed; ok {
		h.owed = append(h.owed, owed{h.r.Token(), unitsOf(h.r.price.charges, h.gone())})
		h.r = &Reservation{Verdict: v, ledger: l, price: &price{charges: charges}}
		h.taken, h.slack = taken, slack(v.At, charges)
	}
	h.mu.Unlock()
	if ok {
		_ = h.pay(ctx) // Close tries again
	}
	return ok, err
}

// beginMove returns what is left as charges that fit, however much is used. Until the
// move is over nothing is drawn and nothing comes back.
func (h *Hold) beginMove() ([]Charge, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	charges := make([]Charge, len(h.left))
	for i := range charges {
		c, err := h.prices.pool(h.r.price.charges[i].Pool)
		if err != nil {
			return nil, false
		}
		c.Units, c.Windows = h.left[i], slices.Clone(c.Windows)
		for j := range c.Windows {
			c.Windows[j].Limit = window.MaxUnits
		}
		charges[i] = c
	}
	h.moving = true
	return charges, true
}

// pay settles what is owed. Only one at a time does: see begin.
func (h *Hold) pay(ctx context.Context) error {
	h.mu.Lock()
	all := h.owed
	h.mu.Unlock()
	for i, o := range all {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.ledger.timeout)
		_, err := h.ledger.store.Settle(within, o.token, o.spent)
		cancel()
		if err != nil && !errors.Is(err, ErrNoReceipt) { // a receipt that is gone stands as spent
			return h.ledger.storeError(context.WithoutCancel(ctx), "settle a hold of "+o.token.Upstream, err)
		}
		h.mu.Lock()
		h.owed = all[i+1:]
		h.mu.Unlock()
	}
	return nil
}
