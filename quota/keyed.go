package quota

import (
	"context"
	"encoding/hex"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// keyed is a family or a pool: a charge of no units, for each key if it has keys.
type keyed struct {
	any    Charge                    // of a pool, or of a key without limits of its own; its pool has no key yet
	own    map[string][]window.Limit // of keys with limits of their own, by page key
	pool   *book.Pool                // has the key of a call that names none; nil for a family, and for a pool without keys
	family *book.Family              // nil for a pool
	lease  book.Lease
	quotas *sync.Map // of a family: the windows of keys by a quota that was set at run time
}

// newKeyed prepares the limits of keys, as a class sees them.
func newKeyed(c Charge, maxKeys int, own map[string][]book.Window, lease book.Lease, class book.Class) *keyed {
	k := &keyed{any: c, own: make(map[string][]window.Limit, len(own)), lease: lease}
	k.any.MaxKeys, k.any.Lease = maxKeys, leaseOf(lease, c.Windows)
	if c.Pool.Name == "" {
		k.any.FamilyKeys = maxKeys
	}
	for key, windows := range own {
		k.own[pageKey(key)] = limits(windows, class)
	}
	return k
}

// charge returns the charge of a key's page.
func (k *keyed) charge(page string) Charge {
	c := k.any
	c.Pool.Key = page
	if own, listed := k.own[page]; listed {
		k.limit(&c, own)
	}
	return c
}

// limit gives a charge the limits of a key of its own. Such keys cannot be too many, so they
// have no maximum.
func (k *keyed) limit(c *Charge, windows []window.Limit) {
	c.Windows, c.MaxKeys, c.Lease = windows, 0, leaseOf(k.lease, windows)
}

// keyedOf returns the keyed pools among charges, each at the place of its charge; nil if
// there are none.
func (p *prices) keyedOf(account accountKey, charges []Charge) (all []*keyed) {
	pools := p.accounts[p.listed(account)]
	for i := range charges {
		if k := pools[charges[i].Pool.Name]; k != nil && k.pool != nil {
			if all == nil {
				all = make([]*keyed, len(charges))
			}
			all[i] = k
		}
	}
	return all
}

// ofKey returns a charge on the page of the key that the call names.
func (k *keyed) ofKey(charge *Charge, c *Call) (Charge, error) {
	key := c.Keys[charge.Pool.Name]
	if key == "" {
		key = k.pool.DefaultKey(c.Method, c.Job)
	}
	if key == "" {
		return Charge{}, BadInput("%s has limits per key, and the call names no key; set Keys of the call, or a default in the by of the pool", charge.Pool)
	}
	own := k.charge(pageKey(key))
	own.Units, own.Pool.Account = charge.Units, charge.Pool.Account
	return own, nil
}

// keyedPool returns the charge of one page of a keyed pool, whose key may be the one that
// a store knows.
func (k *keyed) keyedPool(pool Pool) (Charge, error) {
	switch {
	case pool.Key == "":
		return Charge{}, BadInput("%s has a page per key; name one, as in %s:KEY", pool, pool)
	case !hashed(pool.Key):
		pool.Key = pageKey(pool.Key)
	}
	return k.charge(pool.Key), nil
}

// settleReceipt settles in the store. The page of a key makes room for another key when all
// its units have come back, and a store charges nothing to a page that is gone. A long
// call may cost more than it reserved. The rest is then recorded where the key's next call
// counts.
func (r *Reservation) settleReceipt(ctx context.Context, units Units) (Settlement, error) {
	l := r.ledger
	var more []Charge
	if r.later != nil && units != nil {
		for _, c := range withoutSlots(r.price.charges) {
			taken := c.Units
			if t := r.receipt(); t.AtEnd(c.Pool.Name) {
				taken = 0 // it has come back already
			}
			if c.Units = units[c.Pool.Name] - taken; c.Pool.Key != "" && c.Units > 0 && l.now().Sub(r.At) >= window.Span(c.Windows) {
				more = append(more, c)
			}
		}
	}
	if more == nil {
		return l.settle(ctx, r.receipt(), units)
	}
	units = maps.Clone(units)
	for i := range more {
		units[more[i].Pool.Name] -= more[i].Units
	}
	s, err := l.settle(ctx, r.receipt(), units)
	switch {
	case err != nil:
		r.later.more.CompareAndSwap(nil, &more) // the store may have settled
		return s, err
	case !s.Repeat:
		r.later.more.Store(&more)
	}
	left := r.later.more.Load()
	if left == nil || len(*left) == 0 { // another process has settled, or all is recorded
		return s, nil
	}
	if err := l.chargeLate(ctx, "more-"+hex.EncodeToString(r.Nonce[:]), *left, r.later.labels); err != nil {
		return s, err
	}
	r.later.more.Store(new([]Charge))
	for i := range *left {
		s.Charged += (*left)[i].Units
	}
	return s, nil
}

// later is what a reservation needs to record units later.
type later struct {
	labels Labels
	// more are the charges that settling has to record: nil before they are known, none
	// after they were recorded.
	more atomic.Pointer[[]Charge]
}
