package quota

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"sync/atomic"
)

// ending is a reservation that the upstream counts when the call ends.
type ending struct {
	over atomic.Bool // its units were moved or released
}

// settleAtEnd is Settle for a call that the upstream counts when it ends. The units of
// such a pool are recorded now, and only then given back at the start of the call. So in
// between they count twice rather than not at all. A call that another process settles, by
// its token, or that drew from a hold, stays at its start.
func (r *Reservation) settleAtEnd(ctx context.Context, units Units) (Settlement, error) {
	if units == nil {
		r.ending.over.Store(true)
		return r.ledger.settle(ctx, r.Verdict.Token(), nil)
	}
	start := maps.Clone(units)
	var end []Charge
	for _, c := range r.price.charges {
		if !slices.Contains(r.price.atEnd, c.Pool.Name) {
			continue
		}
		if c.Units = units[c.Pool.Name]; c.Units > 0 {
			end = append(end, c)
		}
		start[c.Pool.Name] = 0
	}
	if len(end) == 0 || r.ending.over.Load() {
		return r.settleReceipt(ctx, start)
	}
	l := r.ledger
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	// under an id of its own, and always the same, so that trying again records once
	id := "end-" + hex.EncodeToString(r.Nonce[:])
	if _, err := l.store.Record(within, Request{ID: id, Charges: l.byBook(end), Labels: r.later.labels}); err != nil {
		return Settlement{}, l.storeError(context.WithoutCancel(ctx), "settle "+end[0].Pool.String(), err)
	}
	r.ending.over.Store(true)
	return r.settleReceipt(ctx, start)
}
