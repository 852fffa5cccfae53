package quota

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Reservation is a granted call: its units are taken. Untouched it stands as
// spent, so an answered call needs no second round trip. Never `defer
// r.Release(ctx)`: that would free calls that were sent.
type Reservation struct {
	Verdict
	ledger *Ledger
	price  *price
	aside  *aside // what stands for a receipt: drawn from a hold, or admitted in an outage
}

// aside is what a reservation remembers that the store does not know.
type aside struct {
	drawn   *drawn // from a hold; nil if admitted in an outage
	mu      sync.Mutex
	settled *Settlement // the first, which wins
}

// Charges returns the units taken, by pool; those of a family's member under the
// family's name.
func (r *Reservation) Charges() map[string]int64 {
	all := make(map[string]int64, len(r.price.charges))
	for _, c := range r.price.charges {
		all[chargeName(c.Pool)] = c.Units
	}
	return all
}

// chargeName is how callers know what a pool charges: a family's member by its
// family, as it has no name of its own.
func chargeName(p Pool) string {
	if p.Key != "" {
		return p.Upstream
	}
	return p.Name
}

// Release gives back the units of a call that provably never left.
func (r *Reservation) Release(ctx context.Context) (Settlement, error) {
	return r.settle(ctx, make([]int64, len(r.price.charges)))
}

// Settle corrects the charge of a single pool to what the call really cost: less
// gives back, more is charged now. It takes effect once.
func (r *Reservation) Settle(ctx context.Context, units int64) (Settlement, error) {
	if len(r.price.charges) != 1 {
		return Settlement{}, BadInput("settle: the call charged %d pools; say how much of each with SettleCharges", len(r.price.charges))
	}
	return r.settle(ctx, []int64{units})
}

// SettleCharges is [Reservation.Settle] for a call that charged several pools.
// Every pool must be named.
func (r *Reservation) SettleCharges(ctx context.Context, units map[string]int64) (Settlement, error) {
	all := make([]int64, len(r.price.charges))
	for i, c := range r.price.charges {
		u, ok := units[chargeName(c.Pool)]
		if !ok || len(units) != len(r.price.charges) {
			return Settlement{}, BadInput("settle: the call charged %v, not %v", r.pools(), slices.Sorted(maps.Keys(units)))
		}
		all[i] = u
	}
	return r.settle(ctx, all)
}

func (r *Reservation) settle(ctx context.Context, units []int64) (Settlement, error) {
	if err := CheckSettle(units, len(r.price.charges)); err != nil {
		return Settlement{}, err
	}
	switch {
	case len(r.price.charges) == 0:
		return Settlement{}, nil // admitted without a price
	case r.aside != nil:
		s, err := r.settleAside(ctx, units)
		if err == nil {
			r.ledger.tell(Event{Kind: EventSettled, Token: Token{Upstream: r.Pool.Upstream, Account: r.Pool.Account, ID: r.ID}, Settlement: s})
		}
		return s, err
	case r.Nonce == [16]byte{}:
		return Settlement{}, BadInput("settle %s: a family's member takes no receipts, so nothing comes back", r.Pool)
	}
	return r.ledger.Settle(ctx, r.Token(), units...)
}

// settleAside is settle where the store has no receipt.
func (r *Reservation) settleAside(ctx context.Context, units []int64) (s Settlement, err error) {
	r.aside.mu.Lock()
	defer r.aside.mu.Unlock()
	switch {
	case r.aside.settled != nil:
		s = *r.aside.settled
		s.Repeat = true
		return s, nil
	case r.aside.drawn != nil:
		s, err = r.aside.drawn.settle(ctx, r, units)
	default:
		s, err = r.settleAdmitted(ctx, units)
	}
	if err == nil {
		r.aside.settled = &s
	}
	return s, err
}

func (r *Reservation) pools() []string { return slices.Sorted(maps.Keys(r.Charges())) }
