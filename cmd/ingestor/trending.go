package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

func (a *app) trendingCommand() *cobra.Command {
	var category string
	var limit int
	cmd := &cobra.Command{
		Use:   "trending REGION",
		Short: "Show the last complete chart of a region",
		Long: `Show the chart of a region as it was last fetched completely. The command reads only the
catalog and spends nothing.`,
		Example: `  ingestor trending DE
  ingestor trending US --category 10 --limit 50`,
		Args: takes(1, 1, "one region, as US or DE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more, not %d", limit)
			}
			return a.withCatalog(cmd, func(ctx context.Context, c anyCatalog) error {
				return a.showChart(ctx, c, strings.ToUpper(args[0]), ingest.Category(category), limit)
			})
		},
		ValidArgsFunction: a.completeFirst(regionNames),
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&category, "category", ingest.AllCategories, "`id` of a video category; 0 means all")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "`number` of videos to show")
	return cmd
}

// withCatalog opens the catalog, and calls f.
func (a *app) withCatalog(cmd *cobra.Command, f func(context.Context, anyCatalog) error) (err error) {
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	if err := s.noCatalog(); err != nil {
		return err
	}
	var done closers
	defer func() { err = errors.Join(err, done.close()) }()
	c, err := a.openCatalog(cmd.Context(), s, &done)
	if err != nil {
		return err
	}
	return f(cmd.Context(), c)
}

// charts reads charts, and says which there are.
type charts interface {
	feeds
	Chart(ctx context.Context, region, category string) (catalog.Chart, error)
}

func (a *app) showChart(ctx context.Context, c charts, region, category string, limit int) error {
	chart, err := c.Chart(ctx, region, category)
	if errors.Is(err, catalog.ErrNotFound) {
		feeds, failed := c.Feeds(ctx)
		if failed != nil {
			return failed
		}
		there := view.Complete(view.Feeds(feeds, nil, time.Now(), a.loaded.MaxAge))
		if len(there) == 0 {
			return errors.New("no chart was fetched completely yet\nTo see why: ingestor regions, and ingestor runs")
		}
		return fmt.Errorf("there is no chart of %s yet; there are %s", view.FeedName(region, category), strings.Join(there, ", "))
	}
	if err != nil {
		return err
	}
	chart.Entries = chart.Entries[:min(limit, len(chart.Entries))]
	return a.print(view.OneChart(chart, time.Now(), a.loaded.MaxAge), func(s *sheet) {
		s.line("%s", s.in(faint, fmt.Sprintf("chart of %s, fetched %s (%s ago)", view.FeedName(region, category), stamp(chart.FetchedAt), span(time.Since(chart.FetchedAt)))))
		var rows [][]string
		for _, e := range chart.Entries {
			v := e.Video
			link := view.VideoURL(v.ID)
			if s.width > 0 && s.width < 100 { // the title needs the room
				link = v.ID
			}
			rows = append(rows, []string{view.Number(int64(e.Rank)), plain(v.Title), plain(v.ChannelTitle), views(&v), link})
		}
		s.table([]column{{name: "rank", right: true}, {name: "title", long: true}, {name: "channel", long: true}, {name: "views", right: true}, {name: "video"}}, rows)
	})
}

// views formats the views of a video. A hidden number is not 0.
func views(v *catalog.Video) string {
	if v.Statistics == nil || v.Statistics.Views == nil {
		return "-"
	}
	return view.Number(*v.Statistics.Views)
}
