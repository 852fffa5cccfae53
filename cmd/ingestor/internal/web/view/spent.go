package view

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// PoolColumns say in which columns a table shows units: in one for each pool that its rows charged. Units of
// several pools have no sum: one counts calls, another tokens.
type PoolColumns struct{ pools []string }

// Versions that did not tell pools apart have recorded units without a pool, perhaps beside others.
const noPool = ""

// ColumnsOf returns the columns for rows that spent these units.
func ColumnsOf(rows ...catalog.WorkRecord) PoolColumns {
	pools, rest := map[string]bool{}, false
	for i := range rows {
		for pool := range rows[i].Charges {
			pools[pool] = true
		}
		rest = rest || restOf(&rows[i]) != 0
	}
	all := slices.Sorted(maps.Keys(pools))
	if rest || len(all) == 0 {
		all = append(all, noPool)
	}
	return PoolColumns{all}
}

// restOf returns the units of a row whose pools are not known.
func restOf(row *catalog.WorkRecord) int64 { return max(row.Units-row.Charges.Sum(), 0) }

// taken are headings of other columns.
var taken = []string{"run", "job", "work", "region", "started", "took", "state", "pages", "new", "updated", "refused", "why", "next", "other pools"}

// Columns returns the columns. The heading is the name of the pool, with its upstream if that
// is the name of another column, too.
func (p PoolColumns) Columns() (all []Column) {
	named := map[string]int{}
	for _, pool := range p.pools {
		named[path.Base(pool)]++
	}
	for _, pool := range p.pools {
		name := Plain(pool)
		switch base := path.Base(pool); {
		case pool == noPool && len(p.pools) == 1:
			name = "units"
		case pool == noPool:
			name = "other pools"
		case named[base] == 1 && !slices.Contains(taken, base) && !IsMoney(pool):
			name = Plain(base)
		}
		all = append(all, Column{Name: name, Number: true})
	}
	return all
}

// Cells returns the cells of a row. Of several pools, those that it did not charge have none.
func (p PoolColumns) Cells(row *catalog.WorkRecord) []any {
	if len(p.pools) == 1 && !IsMoney(p.pools[0]) {
		return []any{row.Units}
	}
	all := make([]any, len(p.pools))
	for i, pool := range p.pools {
		units := row.Charges[pool]
		if pool == noPool {
			units = restOf(row)
		}
		switch {
		case units == 0:
		case IsMoney(pool):
			all[i] = Amount(pool, units)
		default:
			all[i] = units
		}
	}
	return all
}

// SpentWords says what was spent, such as 4 units, or, of several pools: 1 of youtube/searches and 4 of youtube/units.
func SpentWords(of catalog.WorkRecord) string {
	pools := ColumnsOf(of).pools
	if len(pools) == 1 && !IsMoney(pools[0]) {
		return Units("", of.Units)
	}
	var all []string
	for _, pool := range pools {
		if pool == noPool {
			all = append(all, Number(restOf(&of))+" of other pools")
		} else {
			all = append(all, Amount(pool, of.Charges[pool])+" of "+Plain(pool))
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// withSpent puts these columns behind the one of pages.
func withSpent[T any](columns []column[T], rows []T, of func(*T) *catalog.WorkRecord) []column[T] {
	works := make([]catalog.WorkRecord, len(rows))
	for i := range rows {
		works[i] = *of(&rows[i])
	}
	pools := ColumnsOf(works...)
	at := 1 + slices.IndexFunc(columns, func(c column[T]) bool { return c.Name == "pages" })
	all := slices.Clone(columns[:at])
	for i, c := range pools.Columns() {
		all = append(all, column[T]{c, func(row *T) any { return pools.Cells(of(row))[i] }})
	}
	return append(all, columns[at:]...)
}
