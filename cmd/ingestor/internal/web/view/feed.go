package view

import (
	"maps"
	"net/url"
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

// Feed says how fresh a chart is.
type Feed struct {
	Region     string     `json:"region"`
	Category   string     `json:"category"`
	FetchedAt  *time.Time `json:"fetched_at"`
	AgeSeconds *int64     `json:"age_seconds"`
	Videos     int        `json:"videos"`
	Pending    int        `json:"pending"` // videos of the next chart, which is incomplete
	Wanted     bool       `json:"wanted"`  // whether a job fetches it
	State      string     `json:"state"`
}

// Name returns the name of the chart: see [FeedName].
func (f *Feed) Name() string { return FeedName(f.Region, f.Category) }

// FeedName returns the name of a chart, which is also that of the work that fetches it: US
// or, of one category, US/10.
func FeedName(region, category string) string {
	if category == "" {
		return region
	}
	return region + "/" + category
}

// Feeds returns the feeds of a catalog and those that jobs fetch, sorted by name. A feed
// that is older than maxAge is stale.
func Feeds(feeds []catalog.Feed, jobs []*ingest.Job, now time.Time, maxAge time.Duration) []Feed {
	wanted := map[ingest.Chart]bool{}
	for _, j := range jobs {
		for _, chart := range j.Charts() {
			wanted[chart] = true
		}
	}
	missing := maps.Clone(wanted)
	for _, f := range feeds {
		delete(missing, ingest.Chart{Region: f.Region, Category: f.Category})
	}
	all := slices.Clone(feeds)
	for chart := range missing {
		all = append(all, catalog.Feed{Region: chart.Region, Category: chart.Category})
	}
	views := make([]Feed, 0, len(all))
	for _, f := range all {
		v := Feed{
			Region: Plain(f.Region), Category: Plain(f.Category), Videos: f.Entries, Pending: f.Pending,
			Wanted: wanted[ingest.Chart{Region: f.Region, Category: f.Category}],
		}
		v.age(f.FetchedAt, now, maxAge)
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b Feed) int { return strings.Compare(a.Name(), b.Name()) })
	return views
}

var feedColumns = []column[Feed]{
	{Column{Name: "region"}, func(f *Feed) any { return f.Name() }},
	{Column{Name: "fetched"}, func(f *Feed) any {
		if f.FetchedAt == nil {
			return "never"
		}
		return *f.FetchedAt
	}},
	{Column{Name: "age", Number: true, Terminal: true}, func(f *Feed) any { // pages show it with the time
		if f.AgeSeconds == nil {
			return nil
		}
		return time.Duration(*f.AgeSeconds) * time.Second
	}},
	{Column{Name: "videos", Number: true}, func(f *Feed) any { return number(f.Videos) }},
	{Column{Name: "pending", Number: true}, func(f *Feed) any { return number(f.Pending) }},
	{Column{Name: "state"}, func(f *Feed) any { return f.Standing() }},
}

// Standing returns the state of the feed as a cell.
func (f *Feed) Standing() State {
	if !f.Wanted {
		return State{Good, f.State, "no job fetches it"}
	}
	return State{Level: map[string]Level{Fresh: Good, Stale: Warn, Missing: Bad}[f.State], Text: f.State}
}

// SearchFeed returns how fresh the searches of a job are in a region, as a feed.
func SearchFeed(f ingest.Freshness, now time.Time, maxAge time.Duration) Feed {
	v := Feed{Region: Plain(f.Region), Wanted: true}
	v.age(f.CompletedAt, now, maxAge)
	return v
}

func (f *Feed) age(fetched, now time.Time, maxAge time.Duration) {
	f.FetchedAt, f.State = Instant(fetched), Fresh
	if fetched.IsZero() {
		f.State = Missing
		return
	}
	age := int64(now.Sub(fetched) / time.Second)
	f.AgeSeconds = &age
	if now.Sub(fetched) > maxAge {
		f.State = Stale
	}
}

// FeedTable returns a row for each feed.
func FeedTable(all []Feed) Table { return table(feedColumns, all) }

// Complete names the feeds that were fetched completely, sorted and each once.
func Complete(all []Feed) (names []string) {
	for i := range all {
		if all[i].State != Missing {
			names = append(names, all[i].Name())
		}
	}
	return names
}

// Regions names the regions of feeds and of jobs, sorted and each once.
func Regions(feeds []Feed, jobs []*ingest.Job) (names []string) {
	for i := range feeds {
		names = append(names, feeds[i].Region)
	}
	for _, j := range jobs {
		names = append(names, j.Regions...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// JobNames names jobs, in their order.
func JobNames(jobs []*ingest.Job) (names []string) {
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	return names
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

// Video is a video for JSON.
type Video struct {
	catalog.Video

	Seconds int64 `json:"duration_seconds,omitempty"` // missing while live or upcoming
}

// OneVideo returns a video for JSON.
func OneVideo(v catalog.Video) Video {
	clean(&v.ID, &v.ChannelID, &v.Title, &v.ChannelTitle, &v.Description, &v.Category, &v.Live, &v.Language)
	v.Thumbnail = webAddress(v.Thumbnail)
	v.Tags = slices.Clone(v.Tags)
	for i := range v.Tags {
		v.Tags[i] = Plain(v.Tags[i])
	}
	return Video{v, int64(v.Duration / time.Second)}
}

// VideoURL returns the address where people watch a video.
func VideoURL(id string) string { return "https://youtu.be/" + url.PathEscape(id) }

// Watch is a video and the address where people watch it.
type Watch struct {
	Video Video  `json:"video"`
	URL   string `json:"url"`
}

// Chart is the last complete chart of a region and category.
type Chart struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at"` // of its first page; the others are newer
	Stale     bool      `json:"stale"`
	Entries   []Entry   `json:"entries"`
}

// Entry is a place in a chart.
type Entry struct {
	Rank  int    `json:"rank"`
	Video Video  `json:"video"`
	URL   string `json:"url"`
}

// OneChart returns a chart for JSON. It is stale if it is older than maxAge.
func OneChart(c catalog.Chart, now time.Time, maxAge time.Duration) Chart {
	v := Chart{Region: Plain(c.Region), Category: Plain(c.Category), FetchedAt: c.FetchedAt, Stale: now.Sub(c.FetchedAt) > maxAge, Entries: []Entry{}}
	for _, e := range c.Entries {
		v.Entries = append(v.Entries, Entry{e.Rank, OneVideo(e.Video), VideoURL(e.Video.ID)})
	}
	return v
}

// Hit is a video that a search found.
type Hit struct {
	Video   Video          `json:"video"`
	URL     string         `json:"url"`
	Title   catalog.Marked `json:"title"`
	Channel catalog.Marked `json:"channel"`
	Snippet catalog.Marked `json:"snippet"`
}

// Hits are the results of a search, the best first.
type Hits struct {
	Hits   []Hit  `json:"hits"`
	Cursor string `json:"cursor,omitempty"` // asks for the next hits; empty if there are none
	Cut    bool   `json:"cut,omitempty"`    // whether only the last of the videos with these words were looked at
}

// Found returns the results of a search for JSON.
func Found(r catalog.Results) Hits {
	v := Hits{Hits: []Hit{}, Cursor: r.Cursor, Cut: r.Cut}
	for _, h := range r.Hits {
		v.Hits = append(v.Hits, Hit{OneVideo(h.Video), VideoURL(h.Video.ID), PlainMarked(h.Title), PlainMarked(h.Channel), PlainMarked(h.Snippet)})
	}
	return v
}
