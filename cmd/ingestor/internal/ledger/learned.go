package ledger

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

func learnedCommand(a *session.Session) *cobra.Command {
	var forget string
	cmd := a.WithOutput(&cobra.Command{
		Use:   "learned",
		Short: "Show the limits that were learned, as a price book",
		Long: `Show what was learned of the limits that nobody publishes: of the pools with
quota: {learn: ...}. The output is a piece of a price book, so that you can fix a limit.
With --forget, all processes begin to learn the limit of a pool anew.`,
		Example: `  ingestor costs learned
  ingestor costs learned --output json
  ingestor costs learned --forget shop/calls`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if forget != "" {
				return a.WithLedger(cmd, func(ctx context.Context, l *quota.Ledger) error {
					pool, err := quota.ParsePool(forget)
					if err == nil {
						err = l.Admin().Forget(ctx, pool)
					}
					if err != nil {
						return console.BadUsage(err)
					}
					return a.Print(map[string]string{"forgotten": pool.String()}, func(s *console.Sheet) {
						s.Line("What was learned of %s is forgotten. All processes learn it anew.", pool)
					})
				})
			}
			return a.WithLedgerToRead(cmd, func(ctx context.Context, l *quota.Ledger) error {
				all, err := readUsage(ctx, a, l)
				if err != nil {
					return err
				}
				found := []view.Pool{}
				text := ""
				for i, p := range view.Pools(all) {
					if p.Learned != nil {
						found, text = append(found, p), text+learnedBook(&all[i], &p)
					}
				}
				if len(found) == 0 {
					text = "# The price book has no pool with quota: {learn: ...}, so nothing is learned.\n"
				}
				return a.Print(found, func(s *console.Sheet) { s.Text.WriteString(text) })
			})
		},
	})
	cmd.Flags().StringVar(&forget, "forget", "", "begin anew to learn the limit of this `pool`")
	return cmd
}

// learnedBook is what was learned of a pool as a piece of a price book.
func learnedBook(u *quota.Usage, p *view.Pool) string {
	text := fmt.Sprintf("# %s: %s.\n", p.Pool, p.Learned.Words())
	if p.Learned.Measured == 0 || u.Pool.Account != quota.DefaultAccount { // another account has the windows of the pool
		return text
	}
	per, seconds := "1m", 60.0
	for _, longer := range []struct {
		per     string
		seconds float64
	}{{"1h", 3600}, {"24h", 86400}} {
		if p.Learned.Measured*seconds < 20 { // too few to be a whole number
			per, seconds = longer.per, longer.seconds
		}
	}
	text += fmt.Sprintf("# Measured at %s, since %s. To fix it, write in the price book, with a higher revision:\n", console.Stamp(*p.Learned.MeasuredAt), console.Stamp(*p.Learned.Since))
	return text + fmt.Sprintf("upstreams:\n  %s:\n    pools:\n      %s: {quota: %d, windows: [{per: %s}]}\n", u.Pool.Upstream, u.Pool.Name, max(int64(p.Learned.Measured*seconds), 1), per)
}
