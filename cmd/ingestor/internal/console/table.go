package console

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Bar draws which part of a limit is used.
func (s *Sheet) Bar(used, limit int64) string {
	const cells = 8
	full := 0
	if limit > 0 {
		full = int(min(used*cells/limit, cells))
	}
	if used > 0 {
		full = max(full, 1)
	}
	if s.Width == 0 {
		return strings.Repeat("#", full) + strings.Repeat(".", cells-full)
	}
	ink := Good
	switch {
	case used >= limit:
		ink = Bad
	case used*4 >= limit*3:
		ink = Warm
	}
	on, off := "█", "░"
	if s.ASCII {
		on, off = "#", "."
	}
	return s.In(ink, strings.Repeat(on, full)) + s.In(Faint, strings.Repeat(off, cells-full))
}

// Sheet is a page of text for a terminal or a pipe.
type Sheet struct {
	Text   strings.Builder
	Colour bool
	ASCII  bool
	Width  int // of the terminal; 0: not a terminal
}

// NewSheet returns a sheet as wide as the terminal, if w is one.
func NewSheet(w io.Writer) *Sheet {
	s := &Sheet{Colour: Colourful(w), ASCII: ASCIIOnly()}
	if f, ok := w.(*os.File); ok && IsTerminal(w) {
		if width, _, err := term.GetSize(f.Fd()); err == nil {
			s.Width = width
		}
	}
	return s
}

// ASCIIOnly reports whether the locale has an encoding other than UTF-8, as LANG=C has.
// Without a locale, as in containers, it reports false.
func ASCIIOnly() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(os.Getenv(name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}

// Cut shortens a name to a width.
func (s *Sheet) Cut(text string, width int) string {
	tail := "…"
	if s.ASCII {
		tail = "..."
	}
	return ansi.Truncate(text, width, tail)
}

// words cuts each word of a text to a width. It is for tables alone: people copy paths and
// commands.
func (s *Sheet) words(text string, room int) string {
	all := strings.Split(text, " ")
	for i, word := range all {
		all[i] = s.Cut(word, room)
	}
	return strings.Join(all, " ")
}

// The inks of a sheet.
var (
	Bold  = lipgloss.NewStyle().Bold(true)
	Faint = lipgloss.NewStyle().Faint(true)
	Good  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	Warm  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	Bad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// Inks are the inks of levels.
var Inks = map[view.Level]lipgloss.Style{view.Good: Good, view.Warn: Warm, view.Bad: Bad}

// In formats text in an ink, where there is colour.
func (s *Sheet) In(ink lipgloss.Style, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	lines := strings.Split(text, "\n") // Render pads several lines to a block
	for i, line := range lines {
		lines[i] = ink.Render(line)
	}
	return strings.Join(lines, "\n")
}

// Line writes a line, wrapped at the width of the terminal.
func (s *Sheet) Line(format string, args ...any) {
	s.Text.WriteString(s.Wrap(fmt.Sprintf(format, args...), 0) + "\n")
}

// Wrap breaks text at spaces, so that it fits the terminal beside an indent. Words stay
// whole, because people copy paths and times.
func (s *Sheet) Wrap(text string, indent int) string {
	if s.Width == 0 {
		return text
	}
	var out strings.Builder
	room := max(s.Width-indent, narrowest)
	at := 0
	for i, word := range strings.Split(text, " ") {
		width := lipgloss.Width(word)
		switch {
		case i == 0:
		case at+1+width > room:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = 0
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}

// Columns makes columns of their names: >name is a column of numbers, and ~name a long one.
func Columns(names ...string) []view.Column {
	all := make([]view.Column, len(names))
	for i, name := range names {
		all[i] = view.Column{Name: strings.TrimLeft(name, ">~"), Number: strings.HasPrefix(name, ">"), Long: strings.HasPrefix(name, "~")}
	}
	return all
}

// A long column has at least this width, and the second one if spare columns are left out for it.
const (
	narrowest = 12
	legible   = 24
)

// Table writes rows below their columns. Long columns become narrower first. It leaves out columns without a value. A row of
// one cell is a title.
func (s *Sheet) Table(columns []view.Column, rows [][]string) {
	var shown []int
	widths := make([]int, len(columns))
	for i, c := range columns {
		filled := false
		widths[i] = lipgloss.Width(c.Name)
		for _, r := range rows {
			if len(r) == 1 {
				continue
			}
			filled = filled || r[i] != ""
			widths[i] = max(widths[i], lipgloss.Width(r[i]))
		}
		if filled {
			shown = append(shown, i)
		}
	}
	if whole := slices.Clone(widths); !s.fit(columns, shown, widths, narrowest) {
		without, fits := slices.Clone(shown), false
		for i := len(shown) - 1; i >= 0 && !fits; i-- {
			if columns[shown[i]].Spare {
				without, widths = slices.Delete(without, i, i+1), slices.Clone(whole)
				fits = s.fit(columns, without, widths, legible)
			}
		}
		if !fits {
			s.stack(columns, shown, rows)
			return
		}
		shown = without
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = s.In(Faint, strings.ToUpper(c.Name))
	}
	for _, r := range append([][]string{head}, rows...) {
		if len(r) == 1 {
			title := r[0]
			if s.Width > 0 {
				title = s.Cut(title, s.Width)
			}
			s.Line("%s", s.In(Bold, title))
			continue
		}
		var line strings.Builder
		for n, i := range shown {
			if n > 0 {
				line.WriteString("  ")
			}
			text := r[i]
			if s.Width > 0 {
				text = s.Cut(text, widths[i])
			}
			blank := strings.Repeat(" ", max(widths[i]-lipgloss.Width(text), 0))
			if columns[i].Number {
				text = blank + text
			} else {
				text += blank
			}
			line.WriteString(text)
		}
		s.Text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// over returns how much wider than the terminal a row is.
func (s *Sheet) over(shown, widths []int) int {
	over := 2*(len(shown)-1) - s.Width
	for _, i := range shown {
		over += widths[i]
	}
	return over
}

// fit makes long columns narrower until a row fits. It reports whether one does.
func (s *Sheet) fit(columns []view.Column, shown, widths []int, least int) bool {
	if s.Width == 0 {
		return true
	}
	for over := s.over(shown, widths); over > 0; over-- {
		widest := -1
		for _, i := range shown {
			if columns[i].Long && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// stack writes each row as lines of name and value. The first cell is the title.
func (s *Sheet) stack(columns []view.Column, shown []int, rows [][]string) {
	if len(shown) == 0 {
		return
	}
	name := 0
	for _, i := range shown[1:] {
		name = max(name, lipgloss.Width(columns[i].Name))
	}
	name = min(name, max(s.Width/3, narrowest)) // a column may have the name of a pool
	for n, r := range rows {
		if n > 0 {
			s.Text.WriteString("\n")
		}
		s.Line("%s", s.In(Bold, s.words(r[shown[0]], s.Width)))
		for _, i := range shown[1:] {
			if r[i] != "" {
				label := s.Cut(columns[i].Name, name)
				label += strings.Repeat(" ", max(name-lipgloss.Width(label), 0))
				s.Text.WriteString("  " + s.In(Faint, label) + "  ")
				s.Text.WriteString(s.Wrap(s.words(r[i], max(s.Width-name-4, narrowest)), name+4) + "\n")
			}
		}
	}
}

// Plain makes text from outside harmless. It puts the text on one line, and removes what a
// terminal would interpret.
func Plain(text string) string {
	return strings.Join(strings.Fields(view.Plain(strings.Join(strings.Fields(text), " "))), " ")
}

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

// List prints a table with a row for each of all.
func List[T any](s *Sheet, columns []view.Column, all []T, row func(*T) []string) {
	rows := make([][]string, len(all))
	for i := range all {
		rows[i] = row(&all[i])
	}
	s.Table(columns, rows)
}

// View prints a table of package view.
func (s *Sheet) View(t view.Table) {
	rows := make([][]string, len(t.Rows))
	for i, cells := range t.Rows {
		for _, c := range cells {
			rows[i] = append(rows[i], s.cell(c))
		}
	}
	s.Table(t.Columns, rows)
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
		return s.In(Inks[c.Level], c.Text)
	case view.Reason:
		return goesOn(c.Until, c.Why)
	}
	return ""
}

// Lines is a writer whose destination can change while it is in use. Progress bars redirect
// the log so that it stays above them.
type Lines struct {
	mu sync.Mutex
	w  io.Writer
}

// Redirect changes the destination.
func (l *Lines) Redirect(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w = w
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// Colourful reports whether to write colours to w: on a terminal, unless NO_COLOR is set
// (no-color.org).
func Colourful(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
