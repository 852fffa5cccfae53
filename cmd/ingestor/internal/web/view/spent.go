package view

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// PoolColumns say in which columns a table shows units: in one, or if its rows charged several
// pools, in one for each. Units of several pools are no sum: one counts calls, another tokens.
type PoolColumns struct{ pools []string } // none: one column; "": rows of earlier versions, which do not tell pools apart

// ColumnsOf returns the columns for rows that spent these units.
func ColumnsOf(rows ...catalog.WorkRecord) (s PoolColumns) {
	pools := map[string]bool{}
	older := false
	for i := range rows {
		for pool := range rows[i].Charges {
			pools[pool] = true
		}
		older = older || len(rows[i].Charges) == 0 && rows[i].Units != 0
	}
	if len(pools) > 1 {
		s.pools = slices.Sorted(maps.Keys(pools))
		if older {
			s.pools = append(s.pools, "")
		}
	}
	return s
}

// Columns returns the columns. The heading is the name of the pool, with its upstream if
// another pool has that name, too.
func (s PoolColumns) Columns() (all []Column) {
	named := map[string]int{}
	for _, pool := range s.pools {
		named[path.Base(pool)]++
	}
	for _, pool := range s.pools {
		name := Plain(pool)
		switch {
		case pool == "":
			name = "all pools"
		case named[path.Base(pool)] == 1:
			name = path.Base(name)
		}
		all = append(all, Column{Name: name, Number: true})
	}
	if len(all) == 0 {
		all = append(all, Column{Name: "units", Number: true})
	}
	return all
}

// Cells returns the cells of a row. A pool that it did not charge has none.
func (s PoolColumns) Cells(row *catalog.WorkRecord) (all []any) {
	if len(s.pools) == 0 {
		return []any{row.Units}
	}
	for _, pool := range s.pools {
		var cell any
		if units, charged := row.Charges[pool]; charged {
			cell = units
		} else if pool == "" && len(row.Charges) == 0 && row.Units != 0 {
			cell = row.Units
		}
		all = append(all, cell)
	}
	return all
}

// SpentWords says what was spent, such as 4 units, or, of several pools: 1 searches, 4 units.
func SpentWords(of catalog.WorkRecord) string {
	s := ColumnsOf(of)
	if len(s.pools) == 0 {
		return Units("", of.Units)
	}
	var all []string
	cells := s.Cells(&of)
	for i, c := range s.Columns() {
		if units, is := cells[i].(int64); is {
			all = append(all, Number(units)+" "+c.Name)
		}
	}
	return strings.Join(all, ", ")
}

// withSpent puts these columns behind the one of pages.
func withSpent[T any](columns []column[T], rows []T, of func(*T) *catalog.WorkRecord) []column[T] {
	works := make([]catalog.WorkRecord, len(rows))
	for i := range rows {
		works[i] = *of(&rows[i])
	}
	s := ColumnsOf(works...)
	at := 1 + slices.IndexFunc(columns, func(c column[T]) bool { return c.Name == "pages" })
	all := slices.Clone(columns[:at])
	for i, c := range s.Columns() {
		all = append(all, column[T]{c, func(row *T) any { return s.Cells(of(row))[i] }})
	}
	return append(all, columns[at:]...)
}
