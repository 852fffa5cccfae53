package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

func (a *app) doctorCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for damage in the catalog, and repair its index of words",
		Long: `Read the whole catalog and look for damage. It leaves with 1 if there is any. With
--repair the index of words is made anew, which mends a search that misses what is
there; a damaged file must be put back from a backup. Runs wait meanwhile.`,
		Example: `  ingestor doctor
  ingestor doctor --repair`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCatalog(cmd, func(ctx context.Context, c *catalog.Catalog) error {
				return a.examine(ctx, c, repair)
			})
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "make the index of words anew")
	return cmd
}

func (a *app) examine(ctx context.Context, c *catalog.Catalog, repair bool) error {
	if repair {
		if err := c.Rebuild(ctx); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, "The index of words was made anew.")
	}
	problems, err := c.Check(ctx)
	if err != nil {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(a.stdout, plain(p))
	}
	switch {
	case len(problems) == 0:
		fmt.Fprintf(a.stdout, "%s: no damage was found.\n", c.Path())
		return nil
	case repair:
		return fmt.Errorf("%s is damaged beyond its index; stop all runs and put back a backup", c.Path())
	}
	return fmt.Errorf("%s is damaged; try `ingestor doctor --repair`", c.Path())
}
