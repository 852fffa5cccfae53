package pages

import (
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// table is a [view.Table] for the template of that name. The first cell of a row is its
// header.
type table struct {
	Caption string
	Hidden  bool // only screen readers get the caption
	Class   string
	Columns []heading
	Rows    [][]cell
}

type heading struct{ Name, Class string }

// cell is a cell of a table. Only the fields of its kind are set.
type cell struct {
	Of, Class string // the heading, which a phone shows beside the cell, and the class
	Text      string
	At        *moment
	Badge     level
	Note      string
	Link, ID  string      // where the text leads, and the id of the link
	Why       *whyAndWhen // of a [view.Reason]
}

// whyAndWhen is a reason, and when what was deferred resumes, if it did not yet.
type whyAndWhen struct {
	Why     string
	Resumes *moment
}

// link is a cell that leads somewhere; without an address it is text.
type link struct{ text, to, id, note string }

func (s *state) table(caption string, hidden bool, t view.Table) *table {
	shown := &table{Caption: caption, Hidden: hidden}
	shown.Rows = make([][]cell, len(t.Rows))
	for i, c := range t.Columns {
		if c.Terminal {
			continue
		}
		name, class := strings.ToUpper(c.Name[:1])+c.Name[1:], ""
		if c.Number {
			class = "n"
		}
		shown.Columns = append(shown.Columns, heading{name, class})
		if c.Spare {
			class += " spare"
		}
		for k, values := range t.Rows {
			one := s.cell(values[i])
			one.Of, one.Class = name, class+one.Class
			shown.Rows[k] = append(shown.Rows[k], one)
		}
	}
	return shown
}

func (s *state) cell(value any) cell {
	switch v := value.(type) {
	case string:
		return cell{Text: v}
	case int64:
		return cell{Text: view.Number(v)}
	case time.Duration:
		return cell{Text: span(v)}
	case time.Time:
		return cell{At: s.at(v)}
	case *moment:
		return cell{At: v}
	case noted:
		shown := s.cell(v.value)
		shown.Note = v.note
		return shown
	case link:
		return cell{Text: v.text, Link: v.to, ID: v.id, Note: v.note}
	case view.State:
		return cell{Text: v.Text, Badge: v.Level, Note: v.Note}
	case view.Reason:
		why := &whyAndWhen{Why: v.Why}
		if v.Until.After(s.Now) {
			why.Resumes = s.at(v.Until)
		}
		return cell{Why: why, Class: "long"}
	}
	return cell{}
}

// noted is a value with a note beside it.
type noted struct {
	value any
	note  string
}
