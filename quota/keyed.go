package quota

import (
	"slices"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// keyed is a family or a keyed pool: a charge of no units for each key.
type keyed struct {
	any      Charge                    // of a key without limits of its own; its pool has no key yet
	own      map[string][]window.Limit // of keys with limits of their own, by page key
	fallback string                    // the key of a call that names none; "" refuses the call
}

// newKeyed prepares the limits of keys, as a class sees them.
func newKeyed(c Charge, maxKeys int, own map[string][]book.Window, class book.Class) *keyed {
	k := &keyed{any: c, own: make(map[string][]window.Limit, len(own))}
	k.any.MaxKeys = maxKeys
	for key, windows := range own {
		k.own[pageKey(key)] = limits(windows, class)
	}
	return k
}

// charge returns the charge of a key's page. Keys that the book lists cannot be too many,
// so they have no maximum.
func (k *keyed) charge(page string) Charge {
	c := k.any
	c.Pool.Key = page
	if own, listed := k.own[page]; listed {
		c.Windows, c.MaxKeys = own, 0
	}
	return c
}

// keyedOf returns the keyed pools among charges, each at the place of its charge; nil if
// there are none.
func (p *prices) keyedOf(account accountKey, charges []Charge) (all []*keyed) {
	pools := p.keyed[account]
	if pools == nil {
		return nil
	}
	for i := range charges {
		if k := pools[charges[i].Pool.Name]; k != nil {
			if all == nil {
				all = make([]*keyed, len(charges))
			}
			all[i] = k
		}
	}
	return all
}

// withKeys returns a price with the pages of the call's keys, and the limits of these.
func (p *prices) withKeys(made *price, c *Call) (*price, error) {
	for pool := range c.Keys {
		if p.keyed[accountKey{c.Upstream, c.Account, c.Class}][pool] == nil {
			return nil, BadInput("pool %.40q of %s has no keys; leave it out of the keys of the call", pool, c.Upstream)
		}
	}
	if made.keyed == nil {
		return made, made.err
	}
	with := &price{key: made.key, outage: made.outage, charges: slices.Clone(made.charges)}
	for i, k := range made.keyed {
		if k == nil {
			continue
		}
		charge := &with.charges[i]
		key, units := c.Keys[charge.Pool.Name], charge.Units
		if key == "" {
			key = k.fallback
		}
		if key == "" {
			return nil, BadInput("%s has limits per key, and the call names no key; set Keys of the call, or a default in the by of the pool", charge.Pool)
		}
		*charge = k.charge(pageKey(key))
		charge.Units = units
	}
	return with, p.possible(with.charges, c.Class)
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
