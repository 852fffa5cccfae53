package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom"
)

// builtinBook is a built-in price book in the list of them.
type builtinBook struct {
	Name      string   `json:"name"`
	Upstreams []string `json:"upstreams"`
	Verified  string   `json:"verified"` // the day, or "" if the book does not say
	Source    string   `json:"source"`
}

func (a *app) listCostsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the built-in price books",
		Long: `List the built-in price books, the day on which each was last compared with its source,
and that source. Name one with --costs, or extend it in a price book of your own.`,
		Example: `  ingestor costs list
  ingestor costs show --costs builtin/github`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			var all []builtinBook
			for _, name := range headroom.Builtins() {
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
			return a.print(all, func(s *sheet) { s.builtinBooks(all) })
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (s *sheet) builtinBooks(all []builtinBook) {
	rows := make([][]string, len(all))
	for i, b := range all {
		rows[i] = []string{b.Name, strings.Join(b.Upstreams, ", "), b.Verified, b.Source}
	}
	s.table([]column{{name: "name"}, {name: "upstream"}, {name: "verified"}, {name: "source", long: true}}, rows)
}

// staleAfter is the age at which what a price book says of an upstream may have changed.
const staleAfter = 180 * 24 * time.Hour

// staleUpstreams warns of upstreams that were last compared with their source long ago.
func (a *app) staleUpstreams(f *findings, s *settings) {
	now := time.Now()
	if a.clock != nil {
		now = a.clock.Now()
	}
	for _, name := range slices.Sorted(maps.Keys(s.book.Upstreams)) {
		u := s.book.Upstreams[name]
		if age := now.Sub(u.Verified); !u.Verified.IsZero() && age > staleAfter {
			remedy := ""
			if u.Source != "" {
				remedy = "\nCompare it with " + u.Source
			}
			f.warn("price book", "%s was verified on %s, %d days ago, and may be out of date%s", name, u.Verified.Format(time.DateOnly), age/(24*time.Hour), remedy)
		}
	}
}
