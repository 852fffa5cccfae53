package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

func (a *app) runsCommand() *cobra.Command {
	var q catalog.RunsQuery
	var work bool
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Show the history of runs, the latest first",
		Long: `Show the history of runs: what each run cost and fetched, how it ended and why, and when
deferred work resumes. With --work there is a row for each region, query or channel.`,
		Example: `  ingestor runs
  ingestor runs --job trending --limit 5 --work`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 {
				return usage("--limit must be 1 or more, not %d", q.Limit)
			}
			return a.withCatalog(cmd, func(ctx context.Context, c anyCatalog) error {
				all, err := c.Runs(ctx, q)
				if err != nil {
					return err
				}
				return a.print(view.Runs(all), func(s *sheet) {
					switch {
					case len(all) == 0 && q.Job != "":
						s.line("There was no run of %s yet.\nTo make one: ingestor run --once --job %s", q.Job, q.Job)
					case len(all) == 0:
						s.line("There was no run yet.\nTo make one: ingestor run --once")
					case work:
						s.view(view.WorkTable(all))
					default:
						s.view(view.RunTable(all))
					}
				})
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of this `job`")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", 20, "`number` of runs to show")
	cmd.Flags().Int64Var(&q.Before, "before", 0, "only runs before the one with this `id`")
	cmd.Flags().BoolVar(&work, "work", false, "write a row for each unit of work")
	_ = cmd.RegisterFlagCompletionFunc("job", a.complete(jobNames))
	return cmd
}

// goesOn says when deferred work resumes, and why it was deferred or failed.
func goesOn(at time.Time, why string) string {
	why = plain(why)
	switch {
	case at.IsZero():
		return why
	case why == "":
		return "until " + stamp(at)
	}
	return "until " + stamp(at) + ": " + why
}

// state formats the state of a run, or of its work.
func (s *sheet) state(st catalog.State) string { return s.cell(view.StateOf(st)) }
