package console

import (
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// goesOn says when deferred work resumes, and why it was deferred or failed.
func goesOn(at time.Time, why string) string {
	why = Plain(why)
	switch {
	case at.IsZero():
		return why
	case why == "":
		return "until " + Stamp(at)
	}
	return "until " + Stamp(at) + ": " + why
}

// State formats the state of a run, or of its work.
func (s *Sheet) State(st catalog.State) string { return s.cell(view.StateOf(st)) }

// View prints a table of package view.
func (s *Sheet) View(t view.Table) {
	columns := make([]Column, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = Column{Name: c.Name, Right: c.Number, Long: c.Long}
	}
	rows := make([][]string, len(t.Rows))
	for i, cells := range t.Rows {
		for _, c := range cells {
			rows[i] = append(rows[i], s.cell(c))
		}
	}
	s.Table(columns, rows)
}

// cell writes a cell of a table of package view.
func (s *Sheet) cell(cell any) string {
	switch c := cell.(type) {
	case string:
		return Plain(c)
	case int64:
		return view.Number(c)
	case time.Time:
		return Stamp(c)
	case time.Duration:
		return Span(c)
	case view.State:
		if c.Note != "" {
			return s.In(Faint, c.Text+", "+c.Note)
		}
		return s.In(map[view.Level]lipgloss.Style{view.Good: Good, view.Warn: Warm, view.Bad: Bad}[c.Level], c.Text)
	case view.Reason:
		return goesOn(c.Until, c.Why)
	}
	return ""
}
