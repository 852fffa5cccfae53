package ledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
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

func spendCommand(a *session.Session) *cobra.Command {
	var f spendFlags
	cmd := a.WithOutput(&cobra.Command{
		Use:   "spend",
		Short: "Show who spent what",
		Long: `Show what was spent of each pool, by method, job, region, class, account or day. Days
are those of the pool's calendar, which is Pacific time for YouTube. Corrections are
shown with their reasons. The ledger keeps spend for at least 30 days.`,
		Example: `  ingestor quota spend
  ingestor quota spend --by job,region --since 7d
  ingestor quota spend --by day,method --output json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
				return showSpend(ctx, a, l, &f)
			})
		},
	})
	cmd.Flags().StringSliceVar(&f.by, "by", []string{"method"}, "`dimensions`: one or more of "+strings.Join(dimensions, ", "))
	cmd.Flags().StringVar(&f.since, "since", "", "first `day`: 2026-11-01, or 7d for 7 days ago (default all days)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(dimensions, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func showSpend(ctx context.Context, a *session.Session, l *quota.Ledger, f *spendFlags) error {
	q := quota.SpendQuery{}
	var err error
	if f.since != "" {
		if q.Since, err = view.ParseMoment(f.since, a.Now()); err != nil {
			return console.Usage("--since: %w", err)
		}
		if parsed, err := time.Parse(time.DateOnly, f.since); err == nil {
			q.Since = parsed.Add(12 * time.Hour) // noon is on that day in the zone of every pool
		}
	}
	var by []quota.Dimension
	for _, d := range f.by {
		if !slices.Contains(dimensions, d) {
			return console.Usage("--by: there is no %q; write one or more of %s", d, strings.Join(dimensions, ", "))
		}
		if slices.Contains(by, quota.Dimension(d)) {
			return console.Usage("--by: %q is there twice", d)
		}
		by = append(by, quota.Dimension(d))
	}
	all, err := l.View().Spend(ctx, q, by...)
	if err != nil {
		return err
	}
	views := view.Spend(all, by)
	return a.Print(views, func(s *console.Sheet) { spendTable(s, views, by) })
}

func spendTable(s *console.Sheet, all []view.Spent, by []quota.Dimension) {
	if len(all) == 0 {
		s.Line("Nothing was spent in this time.")
		return
	}
	s.View(view.SpendTable(all, by))
}
