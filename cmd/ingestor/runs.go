package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
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
			return a.withCatalog(cmd, func(ctx context.Context, c *catalog.Catalog) error {
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
						s.workTable(all)
					default:
						s.runTable(all)
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

func (s *sheet) runTable(all []catalog.RunRecord) {
	var rows [][]string
	for _, r := range all {
		var pages, added, updated int
		var units int64
		for _, w := range r.Work {
			pages, added, updated, units = pages+w.Pages, added+w.New, updated+w.Updated, units+w.Units
		}
		took := ""
		if !r.EndedAt.IsZero() {
			took = span(r.EndedAt.Sub(r.StartedAt))
		}
		rows = append(rows, []string{
			view.Number(r.ID), r.Job, stamp(r.StartedAt), took, s.state(r.State), view.Number(int64(pages)), view.Number(units),
			view.Number(int64(added)), view.Number(int64(updated)), goesOn(r.ResumeAt, why(&r)),
		})
	}
	s.table(append([]column{
		{name: "run", right: true},
		{name: "job", long: true},
		{name: "started"},
		{name: "took", right: true},
		{name: "state"},
	}, resultColumns...), rows)
}

func (s *sheet) workTable(all []catalog.RunRecord) {
	var rows [][]string
	for _, r := range all {
		for _, w := range r.Work {
			rows = append(rows, []string{
				view.Number(r.ID), r.Job, plain(w.Work), s.state(w.State), view.Number(int64(w.Pages)), view.Number(w.Units),
				view.Number(int64(w.New)), view.Number(int64(w.Updated)), goesOn(w.ResumeAt, w.Error),
			})
		}
	}
	s.table(append([]column{
		{name: "run", right: true},
		{name: "job", long: true},
		{name: "work", long: true},
		{name: "state"},
	}, resultColumns...), rows)
}

// resultColumns are the columns that runs and their work share.
var resultColumns = []column{
	{name: "pages", right: true},
	{name: "units", right: true},
	{name: "new", right: true},
	{name: "updated", right: true},
	{name: "why", long: true},
}

// why returns why a run did not complete its work: the error of the run, or else that of
// the first unit of work that failed or was deferred.
func why(r *catalog.RunRecord) string {
	if r.Error != "" {
		return r.Error
	}
	text, more := "", 0
	for _, state := range []catalog.State{catalog.Failed, catalog.Deferred} {
		for _, w := range r.Work {
			switch {
			case w.State != state || w.Error == "":
			case text == "":
				text = w.Work + ": " + w.Error
			default:
				more++
			}
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %d more: --work shows them)", more)
	}
	return text
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
func (s *sheet) state(st catalog.State) string {
	switch st {
	case catalog.Done:
		return s.in(good, string(st))
	case catalog.Failed:
		return s.in(bad, string(st))
	}
	return s.in(warm, string(st))
}
