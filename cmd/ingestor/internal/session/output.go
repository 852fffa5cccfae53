package session

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
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

// WithOutput gives a command the flag --output, and returns it.
func (a *Session) WithOutput(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&a.Output, "output", "o", "table", "output `format`: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.Output != "table" && a.Output != "json" {
			return console.Usage("there is no output format %q; write table or json", a.Output)
		}
		return nil
	}
	return cmd
}

// Print writes v as JSON if --output asks for it, or else what show writes.
func (a *Session) Print(v any, show func(*console.Sheet)) error {
	if a.Output == "json" {
		e := json.NewEncoder(a.Stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	s := console.NewSheet(a.Stdout)
	show(s)
	_, err := io.WriteString(a.Stdout, s.Text.String())
	return err
}
