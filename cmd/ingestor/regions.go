package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

func (a *app) regionsCommand() *cobra.Command {
	var most string
	cmd := &cobra.Command{
		Use:   "regions",
		Short: "Show how fresh the chart of each region is",
		Long: `Show when the chart of each region and category was last fetched completely. It
leaves with 1 if one that the configuration asks for is older than --max-age or was
never fetched, so that a monitor can call it.`,
		Example: `  ingestor regions
  ingestor regions --max-age 2h --output json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := parseSpan(most)
			if err != nil {
				return usage("--max-age: %w", err)
			}
			return a.withCatalog(cmd, func(ctx context.Context, c *catalog.Catalog) error {
				return a.showFeeds(ctx, c, d)
			})
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&most, "max-age", "26h", "older than so `long` is stale")
	return cmd
}

// feedView is a chart's freshness in JSON.
type feedView struct {
	Region     string     `json:"region"`
	Category   string     `json:"category"`
	FetchedAt  *time.Time `json:"fetched_at"`
	AgeSeconds *int64     `json:"age_seconds"`
	Videos     int        `json:"videos"`
	Pending    int        `json:"pending"` // videos of the one that is being fetched
	Wanted     bool       `json:"wanted"`  // a job fetches it
	State      string     `json:"state"`   // fresh, stale or missing
}

func (a *app) showFeeds(ctx context.Context, c *catalog.Catalog, most time.Duration) error {
	feeds, err := c.Feeds(ctx)
	if err != nil {
		return err
	}
	views, late := freshness(feeds, wantedFeeds(&a.loaded.Config), time.Now(), most)
	err = a.print(views, func(s *sheet) { s.feedTable(views) })
	if err != nil || len(late) == 0 {
		return err
	}
	return fmt.Errorf("older than %s, or missing: %s; `ingestor runs` shows why", span(most), strings.Join(late, ", "))
}

// wantedFeeds are the charts that jobs fetch, with the category as the catalog has
// it.
func wantedFeeds(c *ingest.Config) []catalog.Feed {
	var all []catalog.Feed
	for _, j := range c.List() {
		if j.Kind != ingest.Trending {
			continue
		}
		for _, region := range j.Regions {
			for _, category := range j.Categories {
				if category == "0" {
					category = ""
				}
				all = append(all, catalog.Feed{Region: region, Category: category})
			}
		}
	}
	return all
}

// freshness sets feeds beside those that are wanted, and names those that are late.
func freshness(feeds, wanted []catalog.Feed, now time.Time, most time.Duration) (views []feedView, late []string) {
	same := func(f catalog.Feed) func(catalog.Feed) bool {
		return func(g catalog.Feed) bool { return f.Region == g.Region && f.Category == g.Category }
	}
	all := slices.Clone(feeds)
	for _, w := range wanted {
		if !slices.ContainsFunc(all, same(w)) {
			all = append(all, w)
		}
	}
	views = make([]feedView, 0, len(all))
	for _, f := range all {
		v := feedView{
			Region: f.Region, Category: f.Category, FetchedAt: maybe(f.FetchedAt), Videos: f.Entries, Pending: f.Pending,
			Wanted: slices.ContainsFunc(wanted, same(f)), State: "fresh",
		}
		if f.FetchedAt.IsZero() {
			v.State = "missing"
		} else {
			age := int64(now.Sub(f.FetchedAt) / time.Second)
			v.AgeSeconds = &age
			if now.Sub(f.FetchedAt) > most {
				v.State = "stale"
			}
		}
		if v.Wanted && v.State != "fresh" {
			late = append(late, feedName(f.Region, f.Category))
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b feedView) int {
		return strings.Compare(feedName(a.Region, a.Category), feedName(b.Region, b.Category))
	})
	slices.Sort(late)
	return views, slices.Compact(late)
}

func (s *sheet) feedTable(all []feedView) {
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
		case v.State != "fresh":
			state = s.in(bad, v.State)
		}
		pending := ""
		if v.Pending > 0 {
			pending = number(int64(v.Pending))
		}
		rows = append(rows, []string{v.Region, v.Category, fetched, age, number(int64(v.Videos)), pending, state})
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
