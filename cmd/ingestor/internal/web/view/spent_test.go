package view_test

import (
	"fmt"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// TestRunsShowDollars: a budget is a column of its own, in dollars, and no part of the units.
func TestRunsShowDollars(t *testing.T) {
	for _, c := range []struct {
		row            catalog.WorkRecord
		columns, cells string
		words          string
	}{
		{catalog.WorkRecord{Units: 3, Charges: catalog.Charges{"llm/calls": 3, "budgets/all": 45_000}}, "[budgets/all calls]", "[0.045 USD 3]", "0.045 USD of budgets/all and 3 of llm/calls"},
		{catalog.WorkRecord{Units: 5, Charges: catalog.Charges{"llm/calls": 3, "budgets/all": 45_000}}, "[budgets/all calls other pools]", "[0.045 USD 3 2]", "0.045 USD of budgets/all, 3 of llm/calls and 2 of other pools"},
		{catalog.WorkRecord{Charges: catalog.Charges{"budgets/all": 2_500_000}}, "[budgets/all]", "[2.50 USD]", "2.50 USD of budgets/all"},
		{catalog.WorkRecord{Units: 1, Charges: catalog.Charges{"llm/calls": 1}}, "[calls]", "[1]", "1 unit"},
	} {
		p := view.ColumnsOf(c.row)
		var names []string
		for _, column := range p.Columns() {
			names = append(names, column.Name)
		}
		if got := fmt.Sprint(names); got != c.columns || fmt.Sprint(p.Cells(&c.row)) != c.cells || view.SpentWords(c.row) != c.words {
			t.Errorf("%v: %v, %v, %q", c.row.Charges, got, p.Cells(&c.row), view.SpentWords(c.row))
		}
	}
}
