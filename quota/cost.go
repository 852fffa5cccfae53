package quota

import (
	"context"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// SettleBounded is [Ledger.Settle] for a caller that may be wrong, or may mean harm, such as
// one over HTTP. It refuses units that the call cannot have cost: of each pool at most the
// highest price of a method, or settle_factor of the price book times what the call has
// reserved, whichever is more.
func (l *Ledger) SettleBounded(ctx context.Context, t Token, units Units) (Settlement, error) {
	t.bounds = l.current()
	return l.Settle(ctx, t, units)
}

// CheckCost returns an error if a token is settled to more than [Ledger.SettleBounded] allows.
// Pools, and the units that were reserved and that it is settled to, are in one order.
func (t *Token) CheckCost(pools []string, reserved, units []int64) error {
	if t.bounds == nil {
		return nil
	}
	for i, pool := range pools {
		f, most := t.bounds.of(t.Upstream, pool), reserved[i]
		if most > window.MaxUnits/f.factor {
			most = window.MaxUnits
		} else {
			most = max(most*f.factor, f.highest)
		}
		if units[i] > most && t.Upstream == book.Budgets {
			return BadInput("settle: the bill of budget %s must be 0 to %d millionths of %s, not %d: the call reserved %s\nReserve more beforehand", pool, most, book.Money, units[i], book.FormatMoney(reserved[i]))
		}
		if units[i] > most {
			return BadInput("settle: units of %s must be 0 to %d, not %d: the call reserved %d, the highest price of a method is %d, and settle_factor is %d\n"+
				"If the call did cost that, raise settle_factor of pool %[1]s of upstream %[7]s in costs.yaml, or reserve more beforehand",
				pool, most, units[i], reserved[i], f.highest, f.factor, t.Upstream)
		}
	}
	return nil
}
