package quota

import (
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/window"
)

// Units are units by the name of the pool: {"tokens": 812}. A family's member goes by
// the name of its family.
type Units map[string]int64

// CheckSettle returns what a reservation that charged pools is settled to, in their
// order, or says what is wrong with units. Every pool must be named: one that was
// forgotten would silently stand as it was reserved. Nil settles all of them to
// nothing. Stores call it before they change anything.
func CheckSettle(units Units, pools []string) ([]int64, error) {
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

// unitsOf names units that are in the order of charges.
func unitsOf(charges []Charge, units []int64) Units {
	all := make(Units, len(charges))
	for i := range charges {
		all[chargeName(charges[i].Pool)] = units[i]
	}
	return all
}

// Recorded names what a store has recorded of charges, in their order.
func Recorded(charges []Charge, units []int64) Units { return unitsOf(charges, units) }

// chargeName is how callers know what a pool charges: a family's member by its
// family, as it has no name of its own.
func chargeName(p Pool) string {
	if p.Key != "" {
		return p.Upstream
	}
	return p.Name
}
