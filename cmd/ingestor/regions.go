package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

func (a *app) regionsCommand() *cobra.Command {
	var most string
	cmd := &cobra.Command{
		Use:   "regions",
		Short: "Show how fresh the chart of each region is",
		Long: `Show when the chart of each region and category was last fetched completely. The exit
code is 1 if a chart of the configuration is older than --max-age or was never fetched.
A monitor can call it.`,
		Example: `  ingestor regions
  ingestor regions --max-age 2h --output json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d time.Duration
			if most != "" {
				var err error
				if d, err = view.ParseSpan(most); err != nil {
					return usage("--max-age: %w", err)
				}
			}
			return a.withCatalog(cmd, func(ctx context.Context, c anyCatalog) error {
				if most == "" {
					d = a.loaded.MaxAge
				}
				return a.showFeeds(ctx, c, d)
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&most, "max-age", "", "`duration` after which a chart is stale (default max_age of the settings, 26h)")
	return cmd
}

// feeds says how fresh charts are.
type feeds interface {
	Feeds(ctx context.Context) ([]catalog.Feed, error)
}

func (a *app) showFeeds(ctx context.Context, c feeds, most time.Duration) error {
	feeds, err := c.Feeds(ctx)
	if err != nil {
		return err
	}
	views := view.Feeds(feeds, a.loaded.List(), time.Now(), most)
	late := view.Late(views)
	err = a.print(views, func(s *sheet) { s.feedTable(views) })
	if err != nil || len(late) == 0 {
		return err
	}
	return fmt.Errorf("older than %s, or missing: %s\nTo see why: ingestor runs", span(most), strings.Join(late, ", "))
}

func (s *sheet) feedTable(all []view.Feed) {
	if len(all) == 0 {
		s.line("No job fetches charts, and none was fetched.")
		return
	}
	s.view(view.FeedTable(all))
}
