package view

import (
	"net/url"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

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
