package quota

import (
	"context"
	"maps"
	"sync"

	"github.com/headroom-quota/headroom/quota/book"
)

// Reservation is a granted call. Its units are taken and count as spent, so a call that
// cost its price needs nothing more. Never `defer r.Release(ctx)`: that would free the
// units of calls that were sent.
type Reservation struct {
	Verdict
	ledger *Ledger
	price  *price
	bill   *bill        // in money; nil if no budget has its upstream
	later  *later       // for units that are recorded later; nil if there are none
	flight *flight      // nil if nothing of it is renewed
	local  *localCharge // nil if the store has a receipt; else it was drawn from a hold, admitted in an outage, or let through
}

// localCharge is the state of a reservation that the store does not know.
type localCharge struct {
	drawn    *drawn // from a hold; nil if admitted in an outage, or let through
	observed bool   // let through in mode observe
	recorded bool   // the ledger has the units of one that was let through
	mu       sync.Mutex
	settled  *Settlement // the first, which wins
}

// Charges returns the units taken, by pool. A family's member has the name of its family.
// Slots are not among them: see [Reservation.Done].
func (r *Reservation) Charges() Units {
	if !r.made() {
		return nil
	}
	all := make(Units, len(r.price.charges))
	for _, c := range withoutSlots(r.price.charges) {
		all[chargeName(c.Pool)] = c.Units
	}
	return all
}

// Release gives back the units of a call that was certainly never sent, and its slots.
func (r *Reservation) Release(ctx context.Context) (Settlement, error) {
	return r.settle(ctx, nil)
}

// Settle corrects the charges to what the call really cost. Lower costs give units back,
// and higher costs are charged now. Where the price book says counted: end, the units move
// from the start of the call to now, in one step; those of a call that drew from a hold, or
// was admitted in an outage, stay at its start. Units must name every pool of [Reservation.Charges];
// see [Ledger.Settle]. It takes effect once.
func (r *Reservation) Settle(ctx context.Context, units Units) (Settlement, error) {
	if units == nil {
		units = Units{}
	}
	return r.settle(ctx, units)
}

// settle is Settle, and Release if there are no units.
func (r *Reservation) settle(ctx context.Context, units Units) (Settlement, error) {
	if !r.made() {
		return Settlement{}, BadInput("settle: this reservation was not made by a ledger: see Ledger.Reserve")
	}
	return r.bill.settleAll(ctx, r.ledger, units, nil, func(units Units) (Settlement, error) { return r.settlePools(ctx, units) })
}

// Missing returns the units that the ledger lacks of each pool until Settle succeeds, or Release
// if units is nil. It has too many if they are negative. With them, a person can correct a call
// that could not be settled.
func (r *Reservation) Missing(units Units) map[Pool]int64 {
	if !r.made() {
		return nil
	}
	all := make(map[Pool]int64)
	if r.bill == nil || !r.bill.alone.Load() {
		costs := units.withoutMoney().atLeast(r.least())
		for _, c := range withoutSlots(r.price.charges) {
			all[c.Pool] = costs[chargeName(c.Pool)] - c.Units
		}
	}
	if n, named := units[book.Money]; named || units == nil {
		for _, pool := range r.Budgets() {
			all[pool] = n - r.bill.units
		}
	}
	maps.DeleteFunc(all, func(_ Pool, n int64) bool { return n == 0 })
	return all
}

// settlePools settles all but the bill.
func (r *Reservation) settlePools(ctx context.Context, units Units) (Settlement, error) {
	units = units.atLeast(r.least())
	all, err := units.InOrder(r.pools())
	switch {
	case err != nil:
		return Settlement{}, err
	case len(r.price.charges) == 0:
		return Settlement{}, nil // admitted without a price
	}
	r.ledger.probed(r.Pool.Upstream, r.Pool.Account, r.ID, units != nil, units != nil)
	var s Settlement
	switch {
	case r.local != nil:
		if s, err = r.settleLocal(ctx, all); err == nil {
			r.ledger.tell(ctx, Event{Kind: EventSettled, Token: Token{Upstream: r.Pool.Upstream, Account: r.Pool.Account, ID: r.ID}, Settlement: s})
		}
	case r.Nonce == Nonce{}:
		return Settlement{}, BadInput("settle %s: a family's member takes no receipts, so nothing comes back", r.Pool)
	default:
		s, err = r.settleReceipt(ctx, units)
	}
	if err == nil && !s.Repeat && r.ledger.heard.on.Load() {
		r.ledger.heard.settled(withoutSlots(r.price.charges), all, r.price.held, r.ledger.now())
	}
	return s, err
}

// Token returns the token of the reservation's receipt, which settling and releasing take
// in any process. It is zero if there is no receipt. The token also says what
// [Ledger.Settle] does not give back: the units of pools whose upstream counts what was
// requested (counts: estimate). And it says what [Ledger.Settle] moves to the end of the call
// (counted: end).
func (r *Reservation) Token() Token {
	t := r.receipt()
	if t.ID != "" && r.made() {
		t.least = writeUnits(r.least())
		if r.bill != nil {
			t.bill = r.bill.text()
		}
	}
	return t
}

// receipt returns the token that the store settles.
func (r *Reservation) receipt() Token {
	t := r.Verdict.Token()
	if t.ID != "" && r.made() {
		t.end = r.price.atEnd
	}
	return t
}

// least returns the units of pools whose upstream counts what was requested: settling
// gives none of them back.
func (r *Reservation) least() (units Units) {
	prices := r.ledger.current()
	for _, c := range withoutSlots(r.price.charges) {
		if prices.of(c.Pool.Upstream, c.Pool.Name).requested {
			if units == nil {
				units = make(Units)
			}
			units[c.Pool.Name] = c.Units
		}
	}
	return units
}

// settleLocal settles a reservation that has no receipt in the store.
func (r *Reservation) settleLocal(ctx context.Context, units []int64) (s Settlement, err error) {
	r.local.mu.Lock()
	defer r.local.mu.Unlock()
	switch {
	case r.local.settled != nil:
		s = *r.local.settled
		s.Repeat = true
		return s, nil
	case r.local.drawn != nil:
		s, err = r.local.drawn.settle(ctx, r, units)
	case !r.local.observed || r.local.recorded:
		s, err = r.settleUnseen(ctx, units)
	}
	if err == nil {
		r.local.settled = &s
	}
	return s, err
}

// made reports whether a ledger made the reservation.
func (r *Reservation) made() bool { return r != nil && r.ledger != nil && r.price != nil }

// pools returns the names of the charged pools, in the order of the charges.
func (r *Reservation) pools() []string {
	charges := withoutSlots(r.price.charges)
	all := make([]string, len(charges))
	for i := range charges {
		all[i] = chargeName(charges[i].Pool)
	}
	return all
}
