package main

import (
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/internal/web/view"
)

// view prints a table of package view.
func (s *sheet) view(t view.Table) {
	columns := make([]column, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = column{name: c.Name, right: c.Number, long: c.Long}
	}
	rows := make([][]string, len(t.Rows))
	for i, cells := range t.Rows {
		for _, c := range cells {
			rows[i] = append(rows[i], s.cell(c))
		}
	}
	s.table(columns, rows)
}

// cell writes a cell of a table of package view.
func (s *sheet) cell(cell any) string {
	switch c := cell.(type) {
	case string:
		return plain(c)
	case int64:
		return view.Number(c)
	case time.Time:
		return stamp(c)
	case time.Duration:
		return span(c)
	case view.State:
		if c.Note != "" {
			return s.in(faint, c.Text+", "+c.Note)
		}
		return s.in(map[view.Level]lipgloss.Style{view.Good: good, view.Warn: warm, view.Bad: bad}[c.Level], c.Text)
	case view.Reason:
		return goesOn(c.Until, c.Why)
	}
	return ""
}
