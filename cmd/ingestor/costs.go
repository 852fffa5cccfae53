package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/quota"
)

func (a *app) costsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "costs",
		Short:   "Show what calls cost, and how much there is",
		Example: `  ingestor costs show search.list`,
		Args:    known,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var diff bool
	show := &cobra.Command{
		Use:   "show [METHOD]",
		Short: "Show the price book, or the price of a method",
		Long: `Show the price book that holds, with what it extends worked in and all defaults written
out. With --diff only what differs from the book that it extends; with a METHOD only
its price.`,
		Example: `  ingestor costs show
  ingestor costs show videos.list
  ingestor costs show --diff --costs costs.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("%s takes one method, or none for all", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.settings(cmd.Flags())
			switch {
			case err != nil:
				return err
			case len(args) == 1 && diff:
				return usage("--diff is of the whole book; leave out %s", args[0])
			case len(args) == 1:
				return a.showMethod(s.book, args[0])
			case diff && s.Costs == "":
				fmt.Fprintln(a.stdout, "# The price book is the built-in one: nothing differs. Yours is named by --costs.")
				return nil
			case diff:
				_, err = a.stdout.Write(s.book.Diff())
			default:
				_, err = a.stdout.Write(s.book.Format())
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			s, err := a.settings(cmd.Flags())
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, u := range s.book.Upstreams {
				names = slices.AppendSeq(names, maps.Keys(u.Methods))
			}
			slices.Sort(names)
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	show.Flags().BoolVar(&diff, "diff", false, "only what differs from the book that it extends")
	cmd.AddCommand(show)
	return cmd
}

// showMethod shows the price of a method.
func (a *app) showMethod(book *quota.Book, name string) error {
	var like []string
	for _, upstream := range slices.Sorted(maps.Keys(book.Upstreams)) {
		u := book.Upstreams[upstream]
		if m := u.Methods[name]; m != nil {
			s := newSheet(a.stdout)
			s.line("%s", s.in(bold, upstream+" "+name))
			for _, pool := range slices.Sorted(maps.Keys(m.Charges)) {
				s.line("  %s units of %s", number(m.Charges[pool]), pool)
			}
			for _, r := range m.Routes {
				s.line("  %s", r)
			}
			s.line("  while the ledger is out of reach: %s", m.Outage)
			if m.Source != "" {
				s.line("  source: %s", m.Source)
			}
			fmt.Fprint(a.stdout, s.text.String())
			return nil
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
	return usage("the price book has no method %q; `ingestor costs show` has all", name)
}
