package view

import (
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Table is a list as people see it: a command prints it and a page shows it. Programs get
// the values themselves, as JSON.
//
// A cell is a string, an int64, a [time.Time], a [time.Duration], a [State] or a [Reason].
// An empty cell is nil.
type Table struct {
	Columns []Column
	Rows    [][]any
}

// Column heads a column of a [Table].
type Column struct {
	Name     string
	Number   bool // aligned on the right and never cut
	Long     bool // a narrow terminal cuts it
	Terminal bool // pages leave it out
	Spare    bool // a page on a phone, and a narrow terminal, leave it out
}

// Level says how urgently something needs attention.
type Level string

// The levels.
const (
	Good Level = "good"
	Warn Level = "warn"
	Bad  Level = "bad"
)

// Word returns the level for people who do not see colours.
func (l Level) Word() string {
	return map[Level]string{Good: "All right", Warn: "Look at it", Bad: "Stopped"}[l]
}

// State is a cell that says how something stands.
type State struct {
	Level Level
	Text  string
	Note  string // what else to know, or empty
}

// Reason is a cell that says why something ended as it did.
type Reason struct {
	Why   string
	Until time.Time // when it resumes, or zero
}

// StateOf returns the cell for the state of a run or of work.
func StateOf(s catalog.State) State {
	level := Warn
	switch s {
	case catalog.Done, catalog.Running, catalog.Skipped:
		level = Good
	case catalog.Failed:
		level = Bad
	}
	return State{Level: level, Text: string(s)}
}

// column is a column of a list of T. Adding one to a list is all that a new column needs.
type column[T any] struct {
	Column
	cell func(*T) any
}

// table fills a table from a list. It leaves out columns that are empty in every row.
func table[T any](columns []column[T], all []T) Table {
	t := Table{Rows: make([][]any, len(all))}
	for _, c := range columns {
		cells, filled := make([]any, len(all)), false
		for i := range all {
			cells[i] = c.cell(&all[i])
			filled = filled || cells[i] != nil
		}
		if !filled {
			continue
		}
		t.Columns = append(t.Columns, c.Column)
		for i := range all {
			t.Rows[i] = append(t.Rows[i], cells[i])
		}
	}
	return t
}

// number is a cell that is empty for 0.
func number(n int) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}

// text is a cell that is empty for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// reason is a cell that is empty if there is nothing to say.
func reason(why string, until time.Time) any {
	if why == "" && until.IsZero() {
		return nil
	}
	return Reason{why, until}
}
