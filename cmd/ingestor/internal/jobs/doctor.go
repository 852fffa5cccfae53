package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

func DoctorCommand(a *session.Session) *cobra.Command {
	var repair bool
	cmd := a.WithOutput(&cobra.Command{
		Use:   "doctor",
		Short: "Check the catalog for damage, and rebuild its search index",
		Long: `Read the whole catalog and report damage. The exit code is 1 if there is any. With
--repair, rebuild the search index, so that searches find everything again. Runs wait
meanwhile. If the file itself is damaged, restore it from a backup.

To check the ledger, use ingestor check.`,
		Example: `  ingestor doctor
  ingestor doctor --repair`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithCatalog(cmd, func(ctx context.Context, c session.AnyCatalog) error {
				return examine(ctx, a, c, repair)
			})
		},
	})
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the search index")
	return cmd
}

// diagnosis is the result of ingestor doctor, in JSON.
type diagnosis struct {
	Catalog  string   `json:"catalog"`
	Repaired bool     `json:"repaired"` // the search index was rebuilt
	Problems []string `json:"problems"`
}

func examine(ctx context.Context, a *session.Session, c session.Patient, repair bool) error {
	d := diagnosis{Catalog: c.Path(), Problems: []string{}}
	if repair {
		switch err := c.Rebuild(ctx); {
		case err == nil:
			d.Repaired = true
		case sqlitefile.Damaged(err): // the file itself is damaged
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
	if err := a.Print(d, func(s *console.Sheet) { writeDiagnosis(s, &d) }); err != nil {
		return err
	}
	switch {
	case len(d.Problems) == 0:
		return nil
	case repair:
		return fmt.Errorf("%s is damaged beyond its search index\nStop all runs, then restore a backup, or move the file away and fetch the data again", c.Path())
	}
	return fmt.Errorf("%s is damaged\nTo rebuild its search index: ingestor doctor --repair", c.Path())
}

func writeDiagnosis(s *console.Sheet, d *diagnosis) {
	if d.Repaired {
		s.Line("The search index was rebuilt.")
	}
	for _, p := range d.Problems {
		s.Line("%s", console.Plain(p))
	}
	if len(d.Problems) == 0 {
		s.Line("%s: no damage was found.", d.Catalog)
	}
}
