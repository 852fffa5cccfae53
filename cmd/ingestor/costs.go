package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

func (a *app) costsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "costs",
		Short: "Show what calls cost, and the quota of each pool",
		Long:  `Without a subcommand, ingestor costs does what ingestor costs show does.`,
		Example: `  ingestor costs
  ingestor costs show search.list`,
		Args: known,
	}
	var diff bool
	show := &cobra.Command{
		Use:   "show [METHOD]",
		Short: "Show the price book, or the price of a method",
		Long: `Show the price book in force, merged with the book that it extends, and with every
default written out. With --diff, show only the differences from the book that it
extends. With METHOD, show only the price of that method. The output is YAML, which can
be kept in a file, or JSON.`,
		Example: `  ingestor costs show
  ingestor costs show videos.list
  ingestor costs show --diff --costs costs.yaml`,
		Args: takes(0, 1, "one method, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.settings(cmd.Flags())
			switch {
			case err != nil:
				return err
			case len(args) == 1 && diff:
				return usage("--diff compares whole books; leave out %s", args[0])
			case len(args) == 1:
				return a.showMethod(s.book, args[0])
			case diff && s.Costs == "":
				return a.showBook([]byte("# The price book is the built-in one, so nothing differs. To name another one: --costs FILE\n{}\n"))
			case diff:
				return a.showBook(s.book.Diff())
			}
			return a.showBook(s.book.Format())
		},
		ValidArgsFunction: a.completeFirst(methodNames),
	}
	for _, c := range []*cobra.Command{cmd, show} {
		a.outputFlag(c)
		c.Flags().BoolVar(&diff, "diff", false, "show only the differences from the book that it extends")
	}
	cmd.RunE = show.RunE
	cmd.AddCommand(show)
	return cmd
}

// showBook shows a price book, or part of one.
func (a *app) showBook(text []byte) error {
	if a.output == "json" {
		var book yaml.MapSlice // keeps the order
		if err := yaml.Unmarshal(text, &book); err != nil {
			return err
		}
		text, err := yaml.MarshalWithOptions(book, yaml.JSON())
		if err != nil {
			return err
		}
		return a.print(json.RawMessage(text), nil)
	}
	_, err := a.stdout.Write(text)
	return err
}

// price is the price of a method, in JSON.
type price struct {
	Upstream string           `json:"upstream"`
	Method   string           `json:"method"`
	Charges  map[string]int64 `json:"charges"` // units by pool
	Routes   []string         `json:"routes"`
	Outage   quota.Policy     `json:"outage"`
	Source   string           `json:"source,omitempty"`
}

// showMethod shows the price of a method.
func (a *app) showMethod(book *quota.Book, name string) error {
	var like []string
	for _, upstream := range slices.Sorted(maps.Keys(book.Upstreams)) {
		u := book.Upstreams[upstream]
		if m := u.Methods[name]; m != nil {
			p := price{Upstream: upstream, Method: name, Charges: m.Charges, Routes: []string{}, Outage: m.Outage, Source: m.Source}
			for _, r := range m.Routes {
				p.Routes = append(p.Routes, r.String())
			}
			return a.print(p, func(s *sheet) { s.price(&p) })
		}
		for _, m := range slices.Sorted(maps.Keys(u.Methods)) {
			if strings.Contains(strings.ToLower(m), strings.ToLower(strings.TrimSuffix(name, ".list"))) {
				like = append(like, m)
			}
		}
	}
	if len(like) > 0 {
		return usage("the price book has no method %q; did you mean %s?", name, strings.Join(like, ", "))
	}
	return usage("the price book has no method %q\nTo list all methods: ingestor costs show", name)
}

func (s *sheet) price(p *price) {
	s.line("%s", s.in(bold, p.Upstream+" "+p.Method))
	for _, pool := range slices.Sorted(maps.Keys(p.Charges)) {
		s.line("  %s: %s", pool, units(p.Charges[pool]))
	}
	for _, r := range p.Routes {
		s.line("  %s", r)
	}
	s.line("  while the ledger is unreachable: %s", p.Outage)
	if p.Source != "" {
		s.line("  source: %s", p.Source)
	}
}

// units formats a number of units.
func units(n int64) string {
	if n == 1 {
		return "1 unit"
	}
	return view.Number(n) + " units"
}
