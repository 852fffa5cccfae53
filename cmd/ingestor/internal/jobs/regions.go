package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func RegionsCommand(a *session.Session) *cobra.Command {
	var most string
	cmd := a.WithOutput(&cobra.Command{
		Use:   "regions",
		Short: "Show how fresh the chart of each region is",
		Long: `Show when the chart of each region and category was last fetched completely. The exit
code is 1 if a chart of the configuration is older than --max-age or was never fetched.
A monitor can call it.`,
		Example: `  ingestor regions
  ingestor regions --max-age 2h --output json`,
		Args: console.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d time.Duration
			if most != "" {
				var err error
				if d, err = view.ParseSpan(most); err != nil {
					return console.Usage("--max-age: %w", err)
				}
			}
			return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
				if most == "" {
					d = a.Loaded.MaxAge
				}
				return showFeeds(ctx, a, c, d)
			})
		},
	})
	cmd.Flags().StringVar(&most, "max-age", "", "`duration` after which a chart is stale (default max_age of the settings, 26h)")
	return cmd
}

// feeds says how fresh charts are.
type feeds interface {
	Feeds(ctx context.Context) ([]catalog.Feed, error)
}

func showFeeds(ctx context.Context, a *session.Session, c feeds, most time.Duration) error {
	feeds, err := c.Feeds(ctx)
	if err != nil {
		return err
	}
	views := view.Feeds(feeds, a.Loaded.List(), a.Now(), most)
	late := view.Late(views)
	err = a.Print(views, func(s *console.Sheet) { feedTable(s, views) })
	if err != nil || len(late) == 0 {
		return err
	}
	return fmt.Errorf("older than %s, or missing: %s\nTo see why: ingestor runs", console.Span(most), strings.Join(late, ", "))
}

func feedTable(s *console.Sheet, all []view.Feed) {
	if len(all) == 0 {
		s.Line("No job fetches charts, and none was fetched.")
		return
	}
	s.View(view.FeedTable(all))
}
