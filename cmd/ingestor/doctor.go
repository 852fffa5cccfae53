package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

func (a *app) doctorCommand() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for damage in the catalog, and repair its index of words",
		Long: `Read the whole catalog and look for damage. It leaves with 1 if there is any. With
--repair the index of words is made anew, which mends a search that misses what is
there; a damaged file must be put back from a backup. Runs wait meanwhile.

How the ledger is, ingestor check says.`,
		Example: `  ingestor doctor
  ingestor doctor --repair`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withCatalog(cmd, func(ctx context.Context, c *catalog.Catalog) error {
				return a.examine(ctx, c, repair)
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&repair, "repair", false, "make the index of words anew")
	return cmd
}

// diagnosis is what doctor found, in JSON.
type diagnosis struct {
	Catalog  string   `json:"catalog"`
	Repaired bool     `json:"repaired"` // the index of words was made anew
	Problems []string `json:"problems"`
}

func (a *app) examine(ctx context.Context, c *catalog.Catalog, repair bool) error {
	d := diagnosis{Catalog: c.Path(), Problems: []string{}}
	if repair {
		switch err := c.Rebuild(ctx); {
		case err == nil:
			d.Repaired = true
		case sqlitefile.Damaged(err): // the rest is, too
			d.Problems = append(d.Problems, err.Error())
		default:
			return err
		}
	}
	problems, err := c.Check(ctx)
	if err != nil {
		return err
	}
	d.Problems = append(d.Problems, problems...)
	if err := a.print(d, func(s *sheet) { s.diagnosis(&d) }); err != nil {
		return err
	}
	switch {
	case len(d.Problems) == 0:
		return nil
	case repair:
		return fmt.Errorf("%s is damaged beyond its index; stop all runs, and restore a backup, or move it away and fetch again", c.Path())
	}
	return fmt.Errorf("%s is damaged; try `ingestor doctor --repair`", c.Path())
}

func (s *sheet) diagnosis(d *diagnosis) {
	if d.Repaired {
		s.line("The index of words was made anew.")
	}
	for _, p := range d.Problems {
		s.line("%s", plain(p))
	}
	if len(d.Problems) == 0 {
		s.line("%s: no damage was found.", d.Catalog)
	}
}
