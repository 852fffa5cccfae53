package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func TrendingCommand(a *session.Session) *cobra.Command {
	var category string
	var limit int
	cmd := a.WithOutput(&cobra.Command{
		Use:   "trending REGION",
		Short: "Show the last complete chart of a region",
		Long: `Show the chart of a region as it was last fetched completely. The command reads only the
catalog and spends nothing.`,
		Example: `  ingestor trending DE
  ingestor trending US --category 10 --limit 50`,
		Args: console.Takes(1, 1, "one region, as US or DE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return console.Usage("--limit must be 1 or more, not %d", limit)
			}
			return a.WithCatalogToRead(cmd, func(ctx context.Context, c session.AnyCatalog) error {
				return showChart(ctx, a, c, strings.ToUpper(args[0]), ingest.Category(category), limit)
			})
		},
		ValidArgsFunction: a.CompleteFirst(session.RegionNames),
	})
	cmd.Flags().StringVar(&category, "category", ingest.AllCategories, "`id` of a video category; 0 means all")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "`number` of videos to show")
	return cmd
}

// charts reads charts, and says which there are.
type charts interface {
	feeds
	Chart(ctx context.Context, region, category string) (catalog.Chart, error)
}

func showChart(ctx context.Context, a *session.Session, c charts, region, category string, limit int) error {
	chart, err := c.Chart(ctx, region, category)
	if errors.Is(err, catalog.ErrNotFound) {
		feeds, failed := c.Feeds(ctx)
		if failed != nil {
			return failed
		}
		there := view.Complete(view.Feeds(feeds, nil, a.Now(), a.Loaded.MaxAge))
		if len(there) == 0 {
			return errors.New("no chart was fetched completely yet\nTo see why: ingestor regions, and ingestor runs")
		}
		return fmt.Errorf("there is no chart of %s yet; there are %s", view.FeedName(region, category), strings.Join(there, ", "))
	}
	if err != nil {
		return err
	}
	chart.Entries = chart.Entries[:min(limit, len(chart.Entries))]
	return a.Print(view.OneChart(chart, a.Now(), a.Loaded.MaxAge), func(s *console.Sheet) {
		s.Line("%s", s.In(console.Faint, fmt.Sprintf("chart of %s, fetched %s (%s ago)", view.FeedName(region, category), console.Stamp(chart.FetchedAt), console.Span(a.Now().Sub(chart.FetchedAt)))))
		var rows [][]string
		for _, e := range chart.Entries {
			v := e.Video
			link := view.VideoURL(v.ID)
			if s.Width > 0 && s.Width < 100 { // the title needs the room
				link = v.ID
			}
			rows = append(rows, []string{view.Number(int64(e.Rank)), console.Plain(v.Title), console.Plain(v.ChannelTitle), views(&v), link})
		}
		s.Table(console.Columns(">rank", "~title", "~channel", ">views", "video"), rows)
	})
}

// views formats the views of a video. A hidden number is not 0.
func views(v *catalog.Video) string {
	if v.Statistics == nil || v.Statistics.Views == nil {
		return "-"
	}
	return view.Number(*v.Statistics.Views)
}
