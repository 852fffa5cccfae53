package jobs

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func RunsCommand(a *session.Session) *cobra.Command {
	var q catalog.RunsQuery
	var work bool
	cmd := a.Command("runs", console.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if q.Limit < 1 {
			return console.Usage("--limit must be 1 or more, not %d", q.Limit)
		}
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			all, err := c.Runs(ctx, q)
			if err != nil {
				return err
			}
			var short []view.ShortRun
			if !work && a.Output != "json" {
				if short, err = shortRuns(ctx, c, q); err != nil {
					return err
				}
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
					s.View(view.RunTable(short))
				}
			})
		})
	})
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of this `job`")
	cmd.Flags().IntVarP(&q.Limit, "limit", "n", 20, "`number` of runs to show; runs that share a row count as one")
	cmd.Flags().Int64Var(&q.Before, "before", 0, "only runs before the one with this `id`")
	cmd.Flags().BoolVar(&work, "work", false, "write a row for each unit of work")
	_ = cmd.RegisterFlagCompletionFunc("job", a.Complete(session.JobNames))
	return cmd
}

// runsReader is what shortRuns needs of a catalog.
type runsReader interface {
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
}

// shortRuns reads runs until there are as many rows as the limit of q, and each counts all its runs;
// or until it has read 5,000 runs.
func shortRuns(ctx context.Context, c runsReader, q catalog.RunsQuery) ([]view.ShortRun, error) {
	var all []catalog.RunRecord
	for rows := q.Limit; ; q.Limit = 500 {
		some, err := c.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		whole := len(some) < q.Limit
		short := view.ShortRuns(all, whole)
		short = short[:min(len(short), rows)]
		open := func(r view.ShortRun) bool { return r.Open }
		if whole || len(all) >= 5000 || len(short) == rows && !slices.ContainsFunc(short, open) {
			return short, nil
		}
		q.Before = some[len(some)-1].ID
	}
}

func StateCommand(a *session.Session) *cobra.Command {
	cmd := a.Command("state", console.Known, nil)
	show := a.Command("show [JOB]", console.Takes(0, 1, "one job, or none for all"), func(cmd *cobra.Command, args []string) error {
		job := strings.Join(args, "")
		return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			all, err := c.Cursors(ctx, job)
			if err != nil {
				return err
			}
			if all == nil {
				all = []catalog.Cursor{}
			}
			return a.Print(all, func(s *console.Sheet) {
				if len(all) == 0 {
					s.Line("Nothing was fetched yet.")
					return
				}
				console.List(s, console.Columns("~job", "~work", ">passes", ">page", "completed", "fetched up to", "deferred until"), all, func(c *catalog.Cursor) []string {
					page, completed := "", "never"
					if c.Begun() {
						page = view.Number(c.Page)
					}
					if !c.CompletedAt.IsZero() {
						completed = console.Stamp(c.CompletedAt)
					}
					return []string{c.Job, console.Plain(c.Work), view.Number(c.Pass), page, completed, console.Stamp(c.Mark), console.Stamp(c.ResumeAt)}
				})
			})
		})
	}, a.CompleteFirst(session.JobNames))
	cmd.RunE = show.RunE
	cmd.AddCommand(show, a.Command("reset JOB [WORK]", console.Takes(1, 2, "a job, and perhaps one unit of its work"), func(cmd *cobra.Command, args []string) error {
		return a.WithCatalog(cmd, func(ctx context.Context, c session.AnyCatalog) error {
			all, err := c.Cursors(ctx, args[0])
			if err != nil {
				return err
			}
			var works []string
			for _, cur := range all {
				works = append(works, cur.Work)
			}
			switch {
			case len(works) == 0:
				return console.Usage("there is no state of a job %q\nTo list the jobs: ingestor state show", args[0])
			case len(args) == 2 && !slices.Contains(works, args[1]):
				return console.Usage("there is no state of work %q; %s has %s", args[1], args[0], strings.Join(works, ", "))
			case len(args) == 2:
				works = args[1:]
			}
			for _, w := range works {
				if err := c.Reset(ctx, args[0], w); err != nil {
					return err
				}
			}
			return a.Print(begun{args[0], works}, func(s *console.Sheet) {
				s.Line("%s starts from the beginning: %s", args[0], console.Plain(strings.Join(works, ", ")))
			})
		})
	}, a.CompleteFirst(session.JobNames)))
	return cmd
}

// begun is the work that was reset, in JSON.
type begun struct {
	Job  string   `json:"job"`
	Work []string `json:"work"`
}
