package view

import (
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// The states of a feed.
const (
	Fresh   = "fresh"
	Stale   = "stale"
	Missing = "missing"
)

// Feed is how fresh a chart is.
type Feed struct {
	Region     string     `json:"region"`
	Category   string     `json:"category"`
	FetchedAt  *time.Time `json:"fetched_at"`
	AgeSeconds *int64     `json:"age_seconds"`
	Videos     int        `json:"videos"`
	Pending    int        `json:"pending"` // videos of the one that is being fetched
	Wanted     bool       `json:"wanted"`  // a job fetches it
	State      string     `json:"state"`
}

// Name names the chart, as work does.
func (f *Feed) Name() string { return FeedName(f.Region, f.Category) }

// FeedName names a chart, as work does.
func FeedName(region, category string) string {
	if category == "" {
		return region
	}
	return region + "/" + category
}

// Feeds sets the feeds of a catalog beside those that jobs fetch, sorted by name; what is
// older than most is stale.
func Feeds(feeds []catalog.Feed, jobs []*ingest.Job, now time.Time, most time.Duration) []Feed {
	wanted := wantedFeeds(jobs)
	all := slices.Clone(feeds)
	for _, w := range wanted {
		if !slices.ContainsFunc(all, same(w)) {
			all = append(all, w)
		}
	}
	views := make([]Feed, 0, len(all))
	for _, f := range all {
		v := Feed{
			Region: f.Region, Category: f.Category, FetchedAt: Instant(f.FetchedAt), Videos: f.Entries, Pending: f.Pending,
			Wanted: slices.ContainsFunc(wanted, same(f)), State: Fresh,
		}
		if f.FetchedAt.IsZero() {
			v.State = Missing
		} else {
			age := int64(now.Sub(f.FetchedAt) / time.Second)
			v.AgeSeconds = &age
			if now.Sub(f.FetchedAt) > most {
				v.State = Stale
			}
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b Feed) int { return strings.Compare(a.Name(), b.Name()) })
	return views
}

// Late names the feeds that jobs fetch and that are stale or missing.
func Late(feeds []Feed) (names []string) {
	for _, f := range feeds {
		if f.Wanted && f.State != Fresh {
			names = append(names, f.Name())
		}
	}
	return names
}

func same(f catalog.Feed) func(catalog.Feed) bool {
	return func(g catalog.Feed) bool { return f.Region == g.Region && f.Category == g.Category }
}

// wantedFeeds are the charts that jobs fetch.
func wantedFeeds(jobs []*ingest.Job) []catalog.Feed {
	var all []catalog.Feed
	for _, j := range jobs {
		for _, chart := range j.Charts() {
			if f := (catalog.Feed{Region: chart.Region, Category: chart.Category}); !slices.ContainsFunc(all, same(f)) {
				all = append(all, f)
			}
		}
	}
	return all
}
