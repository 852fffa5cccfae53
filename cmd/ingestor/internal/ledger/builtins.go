package ledger

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
)

// builtinBook is a built-in price book in the list of them.
type builtinBook struct {
	Name      string   `json:"name"`
	Upstreams []string `json:"upstreams"`
	Verified  string   `json:"verified"` // the day, or "" if the book does not say
	Source    string   `json:"source"`
}

func listCostsCommand(a *session.Session) *cobra.Command {
	return a.WithOutput(&cobra.Command{
		Use:   "list",
		Short: "List the built-in price books",
		Long: `List the built-in price books, the day on which each was last compared with its source,
and that source. Name one with --costs, or extend it in a price book of your own.`,
		Example: `  ingestor costs list
  ingestor costs show --costs builtin/github`,
		Args: console.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var all []builtinBook
			for _, name := range headroom.ListBuiltin() {
				b, err := headroom.Load(name)
				if err != nil {
					return err
				}
				row := builtinBook{Name: name, Upstreams: slices.Sorted(maps.Keys(b.Upstreams))}
				for _, u := range b.Upstreams {
					row.Source = u.Source
					if !u.Verified.IsZero() {
						row.Verified = u.Verified.Format(time.DateOnly)
					}
				}
				all = append(all, row)
			}
			return a.Print(all, func(s *console.Sheet) { builtinBooks(s, all) })
		},
	})
}

func builtinBooks(s *console.Sheet, all []builtinBook) {
	rows := make([][]string, len(all))
	for i, b := range all {
		rows[i] = []string{b.Name, strings.Join(b.Upstreams, ", "), b.Verified, b.Source}
	}
	s.Table(console.Columns("name", "upstream", "verified", "~source"), rows)
}
