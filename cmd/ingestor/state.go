package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

func (a *app) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show or reset how far jobs have got",
		Long: `Show how far each unit of work of a job has got: its pass and page, the time up to which
everything is fetched, and the time until which it is deferred. Without a subcommand
it shows all jobs.`,
		Example: `  ingestor state
  ingestor state show trending
  ingestor state reset search "US/golang"`,
		Args: known,
	}
	show := a.stateShowCommand()
	cmd.RunE = show.RunE
	a.outputFlag(cmd)
	cmd.AddCommand(show, a.stateResetCommand())
	return cmd
}

func (a *app) stateShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show [JOB]",
		Short:   "Show how far jobs have got, stalest first",
		Long:    `Show how far each unit of work of one job, or of all jobs, has got.`,
		Example: `  ingestor state show trending`,
		Args:    takes(0, 1, "one job, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job := strings.Join(args, "")
			return a.withCatalog(cmd, func(ctx context.Context, c anyCatalog) error {
				all, err := c.Cursors(ctx, job)
				if err != nil {
					return err
				}
				if all == nil {
					all = []catalog.Cursor{}
				}
				return a.print(all, func(s *sheet) {
					if len(all) == 0 {
						s.line("Nothing was fetched yet.")
						return
					}
					s.cursorTable(all)
				})
			})
		},
		ValidArgsFunction: a.completeFirst(jobNames),
	}
	a.outputFlag(cmd)
	return cmd
}

func (s *sheet) cursorTable(all []catalog.Cursor) {
	var rows [][]string
	for _, c := range all {
		page, completed := "", "never"
		if c.Begun() {
			page = view.Number(c.Page)
		}
		if !c.CompletedAt.IsZero() {
			completed = stamp(c.CompletedAt)
		}
		rows = append(rows, []string{c.Job, plain(c.Work), view.Number(c.Pass), page, completed, stamp(c.Mark), stamp(c.ResumeAt)})
	}
	s.table([]column{
		{name: "job", long: true},
		{name: "work", long: true},
		{name: "passes", right: true},
		{name: "page", right: true},
		{name: "completed"},
		{name: "fetched up to"},
		{name: "deferred until"},
	}, rows)
}

func (a *app) stateResetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset JOB [WORK]",
		Short: "Forget how far a job, or one unit of its work, has got",
		Long: `Forget how far a job, or one unit of its work, has got. Its next run starts from the
beginning. Fetched data is kept. The open page of a run in progress fails, without harm.`,
		Example: `  ingestor state reset trending DE
  ingestor state reset search`,
		Args: takes(1, 2, "a job, and perhaps one unit of its work"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCatalog(cmd, func(ctx context.Context, c anyCatalog) error {
				return a.resetState(ctx, c, args)
			})
		},
		ValidArgsFunction: a.completeFirst(jobNames),
	}
	a.outputFlag(cmd)
	return cmd
}

// begun is the work that was reset, in JSON.
type begun struct {
	Job  string   `json:"job"`
	Work []string `json:"work"`
}

// cursors reads the positions of jobs and forgets them.
type cursors interface {
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Reset(ctx context.Context, job, work string) error
}

func (a *app) resetState(ctx context.Context, c cursors, args []string) error {
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
		return usage("there is no state of a job %q\nTo list the jobs: ingestor state show", args[0])
	case len(args) == 2 && !slices.Contains(works, args[1]):
		return usage("there is no state of work %q; %s has %s", args[1], args[0], strings.Join(works, ", "))
	case len(args) == 2:
		works = args[1:]
	}
	for _, w := range works {
		if err := c.Reset(ctx, args[0], w); err != nil {
			return err
		}
	}
	return a.print(begun{args[0], works}, func(s *sheet) {
		s.line("%s starts from the beginning: %s", args[0], plain(strings.Join(works, ", ")))
	})
}
