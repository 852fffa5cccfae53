package quota

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// tailored returns the price of a call: that of its method, on the pages of the call's
// keys, and with the caller's own estimates.
func (p *prices) tailored(c *Call, made *price) (*price, error) {
	if made.keyed == nil && c.Keys == nil && c.Estimate == nil || made.charges == nil {
		return made, made.err
	}
	for pool := range c.Keys {
		if strings.HasPrefix(pool, book.BudgetKey("")) {
			continue // see bill
		}
		if of := p.book.Upstreams[c.Upstream].Pools[pool]; of == nil || of.By == nil {
			return nil, BadInput("pool %.40q of %s has no keys; leave it out of the keys of the call", pool, c.Upstream)
		}
	}
	own := *made
	own.charges = slices.Clone(made.charges)
	estimates := 0
	if _, has := c.Estimate[book.Money]; has {
		estimates++ // see bill
	}
	for i := range own.charges {
		charge := &own.charges[i]
		name := charge.Pool.Name
		if made.keyed != nil && made.keyed[i] != nil {
			var err error
			if *charge, err = made.keyed[i].ofKey(charge, c); err != nil {
				return nil, err
			}
		}
		units, estimated := c.Estimate[name]
		switch {
		case estimated && (units < 0 || units > window.MaxUnits):
			return nil, BadInput("%s: an estimate must be 0 to %d, not %d", charge.Pool, window.MaxUnits, units)
		case estimated:
			charge.Units = units
			estimates++
		}
		if estimated || made.depends[name] != nil {
			charge.Units = min(charge.Units, most(charge))
		}
	}
	if estimates < len(c.Estimate) {
		for _, pool := range slices.Sorted(maps.Keys(c.Estimate)) {
			if pool != book.Money && !slices.ContainsFunc(own.charges, func(c Charge) bool { return c.Pool.Name == pool }) {
				return nil, BadInput("%s does not charge pool %.40q, so its units cannot be estimated", c.Method, pool)
			}
		}
	}
	own.err = p.possible(own.charges, c.Class)
	return &own, own.err
}

// most is what a call whose units are estimated reserves at most, so that it is never
// impossible: it waits for the whole window, and is then settled.
func most(c *Charge) int64 {
	least := int64(window.MaxUnits)
	for i := range c.Windows {
		least = min(least, c.Windows[i].Limit)
	}
	return max(least, 1) // of a limit of 0 nothing can be had
}

// finish completes a price whose charges are there. If it has keyed pools, only the key
// of a call tells whether it is possible.
func (p *prices) finish(made *price, account accountKey) error {
	made.keyed = p.keyedOf(account, made.charges)
	made.slots = slotOf(made.charges) != nil
	made.dearest = make([]int64, len(made.charges))
	for i := range made.charges {
		c := &made.charges[i]
		of := p.of(c.Pool.Upstream, c.Pool.Name)
		made.learns = made.learns || of.learned != nil
		made.dearest[i] = of.dearest
		if made.depends[c.Pool.Name] != nil && (made.keyed == nil || made.keyed[i] == nil) {
			c.Units = min(c.Units, most(c))
		}
	}
	if made.keyed != nil {
		return nil
	}
	return p.possible(made.charges, account.class)
}

// atEnd returns Token.end: the pools of a method whose upstream counts the call when it
// ends.
func atEnd(m *book.Method) (end string) {
	for _, pool := range slices.Sorted(maps.Keys(m.Prices)) {
		if m.Prices[pool].AtEnd {
			end = cmp.Or(end, endMark) + pool + endMark
		}
	}
	return end
}
