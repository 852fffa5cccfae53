package quota

import (
	"slices"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// estimated returns the price of a call of a method: the method's, with the caller's own
// estimates in it.
func (p *prices) estimated(c *Call, made *price) (*price, error) {
	if c.Estimate == nil || made.charges == nil {
		return made, made.err
	}
	own := *made
	own.charges = slices.Clone(made.charges)
	for pool, units := range c.Estimate {
		i := slices.IndexFunc(own.charges, func(charge Charge) bool { return charge.Pool.Name == pool })
		switch {
		case i < 0:
			return nil, BadInput("%s does not charge pool %.40q, so its units cannot be estimated", c.Method, pool)
		case units < 0 || units > window.MaxUnits:
			return nil, BadInput("%s: an estimate must be 0 to %d, not %d", own.charges[i].Pool, window.MaxUnits, units)
		}
		own.charges[i].Units = min(units, most(&own.charges[i]))
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

// capped bounds the units of a method's pools whose price depends on the call.
func capped(m *book.Method, charges []Charge) (ends []string) {
	if len(m.Prices) == 0 {
		return nil
	}
	for i := range charges {
		c := &charges[i]
		price := m.Prices[c.Pool.Name]
		if price == nil {
			continue
		}
		c.Units = min(c.Units, most(c))
		if price.AtEnd {
			ends = append(ends, c.Pool.Name)
		}
	}
	return ends
}
