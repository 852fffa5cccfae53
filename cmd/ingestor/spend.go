package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// spendFlags are the flags of ingestor quota spend.
type spendFlags struct {
	by    []string
	since string
}

// dimensions are the dimensions of spend, as flags have them.
var dimensions = func() (names []string) {
	for _, d := range view.Dimensions {
		names = append(names, string(d))
	}
	return names
}()

func (a *app) spendCommand() *cobra.Command {
	var f spendFlags
	cmd := &cobra.Command{
		Use:   "spend",
		Short: "Show who spent what",
		Long: `Show what was spent of each pool, by method, job, region, class, account or day. Days
are those of the pool's calendar, which is Pacific time for YouTube. Corrections are
shown with their reasons. The ledger keeps spend for at least 30 days.`,
		Example: `  ingestor quota spend
  ingestor quota spend --by job,region --since 7d
  ingestor quota spend --by day,method --output json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
				return a.showSpend(ctx, l, &f)
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringSliceVar(&f.by, "by", []string{"method"}, "`dimensions`: one or more of "+strings.Join(dimensions, ", "))
	cmd.Flags().StringVar(&f.since, "since", "", "first `day`: 2026-11-01, or 7d for 7 days ago (default all days)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(dimensions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) showSpend(ctx context.Context, l *quota.Ledger, f *spendFlags) error {
	q := quota.SpendQuery{}
	var err error
	if f.since != "" {
		if q.Since, err = view.ParseMoment(f.since, time.Now()); err != nil {
			return usage("--since: %w", err)
		}
		if parsed, err := time.Parse(time.DateOnly, f.since); err == nil {
			q.Since = parsed.Add(12 * time.Hour) // noon is on that day in the zone of every pool
		}
	}
	var by []quota.Dimension
	for _, d := range f.by {
		if !slices.Contains(dimensions, d) {
			return usage("--by: there is no %q; write one or more of %s", d, strings.Join(dimensions, ", "))
		}
		if slices.Contains(by, quota.Dimension(d)) {
			return usage("--by: %q is there twice", d)
		}
		by = append(by, quota.Dimension(d))
	}
	all, err := l.Spend(ctx, q, by...)
	if err != nil {
		return err
	}
	views := view.Spend(all, by)
	return a.print(views, func(s *sheet) { s.spendTable(views, by) })
}

func (s *sheet) spendTable(all []view.Spent, by []quota.Dimension) {
	if len(all) == 0 {
		s.line("Nothing was spent in this time.")
		return
	}
	s.view(view.SpendTable(all, by))
}
