package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// The rules for standard output:
//
//   - A terminal gets a table that fits, with a little colour unless NO_COLOR is set. If the
//     rows do not fit, each cell gets a line.
//   - A pipe gets the same table without colour, and uncut.
//   - A program uses --output json, whose names do not change.
//   - Text from outside (titles, reasons) cannot move the cursor.
//
// The table of lipgloss makes every column narrower, and so cuts figures. This table
// shortens only names.

// outputFlag gives a command the flag --output.
func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "output `format`: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.output != "table" && a.output != "json" {
			return usage("there is no output format %q; write table or json", a.output)
		}
		return nil
	}
}

// print writes v as JSON if --output asks for it, or else what show writes.
func (a *app) print(v any, show func(*sheet)) error {
	if a.output == "json" {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	s := newSheet(a.stdout)
	show(s)
	_, err := io.WriteString(a.stdout, s.text.String())
	return err
}

// sheet is a page of text for a terminal or a pipe.
type sheet struct {
	text   strings.Builder
	colour bool
	ascii  bool
	width  int // of the terminal; 0: not a terminal
}

func newSheet(w io.Writer) *sheet {
	s := &sheet{colour: colourful(w), ascii: asciiOnly()}
	if f, ok := w.(*os.File); ok && isTerminal(w) {
		if width, _, err := term.GetSize(f.Fd()); err == nil {
			s.width = width
		}
	}
	return s
}

// asciiOnly reports whether the locale has an encoding other than UTF-8, as LANG=C has.
// Without a locale, as in containers, it reports false.
func asciiOnly() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(os.Getenv(name)); locale != "" {
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return false
}

// cut shortens a name to a width.
func (s *sheet) cut(text string, width int) string {
	tail := "…"
	if s.ascii {
		tail = "..."
	}
	return ansi.Truncate(text, width, tail)
}

// words cuts each word of a text to a width. It is for tables alone: people copy paths and
// commands.
func (s *sheet) words(text string, room int) string {
	all := strings.Split(text, " ")
	for i, word := range all {
		all[i] = s.cut(word, room)
	}
	return strings.Join(all, " ")
}

// The inks of a sheet.
var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	warm  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// in formats text in an ink, where there is colour.
func (s *sheet) in(ink lipgloss.Style, text string) string {
	if !s.colour || text == "" {
		return text
	}
	lines := strings.Split(text, "\n") // Render pads several lines to a block
	for i, line := range lines {
		lines[i] = ink.Render(line)
	}
	return strings.Join(lines, "\n")
}

// line writes a line, wrapped at the width of the terminal.
func (s *sheet) line(format string, args ...any) {
	s.text.WriteString(s.wrap(fmt.Sprintf(format, args...), 0) + "\n")
}

// wrap breaks text at spaces, so that it fits the terminal beside an indent. Words stay
// whole, because people copy paths and times.
func (s *sheet) wrap(text string, indent int) string {
	if s.width == 0 {
		return text
	}
	var out strings.Builder
	room := max(s.width-indent, narrowest)
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

// column describes a column. Numbers are aligned right. Long columns become narrower
// first.
type column struct {
	name  string
	right bool
	long  bool // is cut on a narrow terminal
}

// narrowest is the least width of a long column.
const narrowest = 12

// table writes rows below their columns. It leaves out columns without a value. A row of
// one cell is a title.
func (s *sheet) table(columns []column, rows [][]string) {
	var shown []int
	widths := make([]int, len(columns))
	for i, c := range columns {
		filled := false
		widths[i] = lipgloss.Width(c.name)
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
	if !s.fit(columns, shown, widths) {
		s.stack(columns, shown, rows)
		return
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = s.in(faint, strings.ToUpper(c.name))
	}
	for _, r := range append([][]string{head}, rows...) {
		if len(r) == 1 {
			title := r[0]
			if s.width > 0 {
				title = s.cut(title, s.width)
			}
			s.line("%s", s.in(bold, title))
			continue
		}
		var line strings.Builder
		for n, i := range shown {
			if n > 0 {
				line.WriteString("  ")
			}
			text := r[i]
			if s.width > 0 {
				text = s.cut(text, widths[i])
			}
			blank := strings.Repeat(" ", max(widths[i]-lipgloss.Width(text), 0))
			if columns[i].right {
				text = blank + text
			} else {
				text += blank
			}
			line.WriteString(text)
		}
		s.text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// fit makes long columns narrower until a row fits. It reports whether one does.
func (s *sheet) fit(columns []column, shown, widths []int) bool {
	if s.width == 0 {
		return true
	}
	over := 2*(len(shown)-1) - s.width
	for _, i := range shown {
		over += widths[i]
	}
	for over > 0 {
		widest := -1
		for _, i := range shown {
			if columns[i].long && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
		over--
	}
	return true
}

// stack writes each row as lines of name and value. The first cell is the title.
func (s *sheet) stack(columns []column, shown []int, rows [][]string) {
	if len(shown) == 0 {
		return
	}
	name := 0
	for _, i := range shown[1:] {
		name = max(name, lipgloss.Width(columns[i].name))
	}
	for n, r := range rows {
		if n > 0 {
			s.text.WriteString("\n")
		}
		s.line("%s", s.in(bold, s.words(r[shown[0]], s.width)))
		for _, i := range shown[1:] {
			if r[i] != "" {
				label := fmt.Sprintf("%-*s", name, columns[i].name)
				s.text.WriteString("  " + s.in(faint, label) + "  ")
				s.text.WriteString(s.wrap(s.words(r[i], max(s.width-name-4, narrowest)), name+4) + "\n")
			}
		}
	}
}

// plain makes text from outside harmless. It puts the text on one line, and removes what a
// terminal would interpret.
func plain(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069': // and marks that change the direction of text
			return -1
		}
		return r
	}, text)), " ")
}
