package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func RunsCommand(a *session.Session) *cobra.Command {
	var q catalog.RunsQuery
	var work bool
	cmd := a.WithOutput(&cobra.Command{
		Use:   "runs",
		Short: "Show the history of runs, the latest first",
		Long: `Show the history of runs: what each run cost and fetched, how it ended and why, and when
deferred work resumes. With --work there is a row for each region, query or channel.`,
		Example: `  ingestor runs
  ingestor runs --job trending --limit 5 --work`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 {
				return console.Usage("--limit must be 1 or more, not %d", q.Limit)
			}
			return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
				all, err := c.Runs(ctx, q)
				if err != nil {
					return err
				}
				return a.Print(view.Runs(all), func(s *console.Sheet) {
					switch {
					case len(all) == 0 && q.Job != "":
						s.Line("There was no run of %s yet.\nTo make one: ingestor run --once --job %s", q.Job, q.Job)
					case len(all) == 0:
						s.Line("There was no run yet.\nTo make one: ingestor run --once")
					case work:
						s.View(view.WorkTable(all))
					default:
						s.View(view.RunTable(all))
					}
				})
			})
		},
	})
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of this `job`")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", 20, "`number` of runs to show")
	cmd.Flags().Int64Var(&q.Before, "before", 0, "only runs before the one with this `id`")
	cmd.Flags().BoolVar(&work, "work", false, "write a row for each unit of work")
	_ = cmd.RegisterFlagCompletionFunc("job", a.Complete(session.JobNames))
	return cmd
}
