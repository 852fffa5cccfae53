package ledger

import (
	"context"
	"encoding/json"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/quota"
)

func CostsCommand(a *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "costs",
		Short: "Show what calls cost, and the quota of each pool",
		Long:  `Without a subcommand, ingestor costs does what ingestor costs show does.`,
		Example: `  ingestor costs
  ingestor costs show search.list
  ingestor costs list
  ingestor costs facts builtin/github
  ingestor costs try search.list --answer answer.txt`,
		Args: console.Known,
	}
	var diff bool
	show := &cobra.Command{
		Use:   "show [METHOD | UPSTREAM | FAMILY]",
		Short: "Show the price book, or explain a part of it",
		Long: `Show the price book in force, merged with the book that it extends, and with every
default written out. With --diff, show only the differences from the book that it
extends. The output is YAML, which can be kept in a file, or JSON. Comments at its end list
the limits of single keys that were set at run time, and who set them.

With FAMILY, show the limits of its keys, and where each comes from: the price book, or
who set it with ingestor limits. With METHOD or UPSTREAM, explain it in words: what a
call reserves, what its answer settles, and what answers tell about the limits.`,
		Example: `  ingestor costs show
  ingestor costs show videos.list
  ingestor costs show youtube
  ingestor costs show --diff --costs costs.yaml`,
		Args: console.Takes(0, 1, "one method, upstream or family, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Settings(cmd.Flags())
			switch {
			case err != nil:
				return err
			case len(args) == 1 && diff:
				return console.Usage("--diff compares whole books; leave out %s", args[0])
			case len(args) == 1 && s.Book.Families[args[0]] != nil:
				return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
					return showFamily(ctx, a, l, s.Book.Families[args[0]])
				})
			case len(args) == 1:
				return explain(a, s.Book, args[0])
			case diff && s.Costs == "":
				return showBook(a, []byte("# The price book is the built-in one, so nothing differs. To name another one: --costs FILE\n{}\n"))
			case diff:
				return showBook(a, s.Book.Diff())
			}
			if err := showBook(a, s.Book.Format()); err != nil {
				return err
			}
			return showSetLimits(a, cmd, s)
		},
		ValidArgsFunction: a.CompleteFirst(session.MethodNames),
	}
	for _, c := range []*cobra.Command{cmd, show} {
		a.WithOutput(c)
		c.Flags().BoolVar(&diff, "diff", false, "show only the differences from the book that it extends")
	}
	cmd.RunE = show.RunE
	cmd.AddCommand(show, listCostsCommand(a), factsCommand(a), tryCommand(a))
	return cmd
}

// showBook shows a price book, or part of one.
func showBook(a *session.Session, text []byte) error {
	if a.Output == "json" {
		var book yaml.MapSlice // keeps the order
		if err := yaml.Unmarshal(text, &book); err != nil {
			return err
		}
		text, err := yaml.MarshalWithOptions(book, yaml.JSON())
		if err != nil {
			return err
		}
		return a.Print(json.RawMessage(text), nil)
	}
	_, err := a.Stdout.Write(text)
	return err
}
