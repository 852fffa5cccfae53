package quota

import (
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// Units are numbers of units by pool: {"tokens": 812}. A keyed pool has its name without
// the key, and a family's member has the name of its family.
type Units map[string]int64

// InOrder returns the units of pools in their order, or says what is wrong with them.
// Every pool must be named: one that was forgotten would silently keep what was
// reserved. Nil is nothing for each pool. A reservation that charged these pools is
// settled to the result, by its store or, if no store knows it, by its ledger.
func (units Units) InOrder(pools []string) ([]int64, error) {
	all := make([]int64, len(pools))
	if units == nil {
		return all, nil
	}
	for i, pool := range pools {
		u, named := units[pool]
		if !named {
			return nil, BadInput("settle: the units of pool %q are missing; the call charged %s, so name each of them", pool, strings.Join(pools, ", "))
		}
		if u < 0 || u > window.MaxUnits {
			return nil, BadInput("settle: units of %s must be 0 to %d, not %d", pool, window.MaxUnits, u)
		}
		all[i] = u
	}
	if len(units) > len(pools) {
		for _, pool := range slices.Sorted(maps.Keys(units)) {
			if !slices.Contains(pools, pool) {
				return nil, BadInput("settle: the call did not charge pool %.40q; it charged %s", pool, strings.Join(pools, ", "))
			}
		}
	}
	return all, nil
}

// atLeast returns units that are no lower than those of a pool whose upstream counts what
// was requested, except of a call that was free of charge as a whole. Units that are
// missing stay missing, and bad ones stay bad.
func (units Units) atLeast(least Units) Units {
	if len(least) == 0 || !slices.ContainsFunc(slices.Collect(maps.Values(units)), func(n int64) bool { return n > 0 }) {
		return units
	}
	units = maps.Clone(units)
	for pool, n := range units {
		if n >= 0 {
			units[pool] = max(n, least[pool])
		}
	}
	return units
}

// unitsOf returns units by pool, from units in the order of charges.
func unitsOf(charges []Charge, units []int64) Units {
	all := make(Units, len(charges))
	for i := range charges {
		all[chargeName(charges[i].Pool)] = units[i]
	}
	return all
}

// Recorded returns by pool the units that a store has recorded of the charges, given in
// their order.
func (r *Request) Recorded(units []int64) Units { return unitsOf(r.Charges, units) }

// chargeName returns the name of a pool in [Units], without its key: of a family's
// member, its family's.
func chargeName(p Pool) string {
	if p.Name == "" {
		return p.Upstream
	}
	return p.Name
}
