package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
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
			return a.withCatalog(cmd, func(ctx context.Context, c *catalog.Catalog) error {
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

func (a *app) showFeeds(ctx context.Context, c *catalog.Catalog, most time.Duration) error {
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
	var rows [][]string
	for _, v := range all {
		age, fetched := "", "never"
		if v.FetchedAt != nil {
			age, fetched = span(time.Duration(*v.AgeSeconds)*time.Second), stamp(*v.FetchedAt)
		}
		state := s.in(good, v.State)
		switch {
		case !v.Wanted:
			state = s.in(faint, v.State+", no job")
		case v.State != view.Fresh:
			state = s.in(bad, v.State)
		}
		pending := ""
		if v.Pending > 0 {
			pending = view.Number(int64(v.Pending))
		}
		rows = append(rows, []string{v.Region, v.Category, fetched, age, view.Number(int64(v.Videos)), pending, state})
	}
	s.table([]column{
		{name: "region"},
		{name: "category"},
		{name: "fetched"},
		{name: "age", right: true},
		{name: "videos", right: true},
		{name: "pending", right: true},
		{name: "state"},
	}, rows)
}
