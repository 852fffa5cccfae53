package quota

import (
	"context"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// costs are what a call of an upstream can cost at most, for callers over HTTP.
type costs struct {
	upstream *book.Upstream // nil: the price book does not have it
	highest  Units          // by pool: the highest price of a method
}

func costsOf(u *book.Upstream) *costs {
	m := &costs{u, make(Units)}
	for _, methods := range [...]map[string]*book.Method{u.Methods, u.Default} {
		for _, method := range methods {
			for pool := range method.Charges {
				m.highest[pool] = max(m.highest[pool], method.Highest(pool))
			}
		}
	}
	return m
}

// SettleBounded is [Ledger.Settle] for a caller that may be wrong, or may mean harm, such as
// one over HTTP. It refuses units that the call cannot have cost: of each pool at most the
// highest price of a method, or settle_factor of the price book times what the call has
// reserved, whichever is more.
func (l *Ledger) SettleBounded(ctx context.Context, t Token, units Units) (Settlement, error) {
	if p := l.current(); p != nil {
		if t.costs = p.costs[t.Upstream]; t.costs == nil {
			t.costs = &costs{}
		}
	}
	return l.Settle(ctx, t, units)
}

// CheckCost returns an error if a token is settled to more than [Ledger.SettleBounded] allows.
// Pools, and the units that were reserved and that it is settled to, are in one order.
func (t *Token) CheckCost(pools []string, reserved, units []int64) error {
	if t.costs == nil {
		return nil
	}
	for i, pool := range pools {
		factor, highest := int64(book.SettleFactor), t.costs.highest[pool]
		if u := t.costs.upstream; u != nil && u.Pools[pool] != nil {
			factor = u.Pools[pool].SettleFactor
		}
		most := reserved[i]
		if most > window.MaxUnits/factor {
			most = window.MaxUnits
		} else {
			most = max(most*factor, highest)
		}
		if units[i] > most && t.Upstream == book.Budgets {
			return BadInput("settle: the bill of budget %s must be 0 to %d millionths of %s, not %d: the call reserved %d\nReserve more beforehand", pool, most, book.Money, units[i], reserved[i])
		}
		if units[i] > most {
			return BadInput("settle: units of %s must be 0 to %d, not %d: the call reserved %d, the highest price of a method is %d, and settle_factor is %d\n"+
				"If the call did cost that, raise settle_factor of pool %[1]s of upstream %[7]s in costs.yaml, or reserve more beforehand",
				pool, most, units[i], reserved[i], highest, factor, t.Upstream)
		}
	}
	return nil
}
