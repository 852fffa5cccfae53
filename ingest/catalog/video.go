package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Video is a video as the upstream describes it. Texts are stored unchanged. Escape them
// before you show them.
type Video struct {
	ID           string        `json:"id"`
	ChannelID    string        `json:"channel_id"`
	ChannelTitle string        `json:"channel_title"`
	Title        string        `json:"title"`
	Description  string        `json:"description"`
	Tags         []string      `json:"tags,omitempty"`
	Category     string        `json:"category,omitempty"`
	Live         string        `json:"live,omitempty"`     // none, live, upcoming
	Language     string        `json:"language,omitempty"` // BCP 47
	Thumbnail    string        `json:"thumbnail,omitempty"`
	Duration     time.Duration `json:"-"` // zero while live or upcoming
	PublishedAt  time.Time     `json:"published_at,omitzero"`

	// Brief says that the video comes from a search or a playlist. Its description is
	// cut short, and tags and duration are missing. It never replaces a full video.
	Brief bool `json:"brief,omitempty"`

	// FetchedAt is set by the catalog.
	FetchedAt time.Time `json:"fetched_at"`
	// Statistics are nil if there are none. Saving a page ignores their VideoID, and
	// keeps the old statistics if they are nil.
	Statistics *Statistics `json:"statistics,omitempty"`
}

// Statistics are the latest numbers of a video. A hidden number is nil.
type Statistics struct {
	VideoID   string    `json:"-"`
	Views     *int64    `json:"views"`
	Likes     *int64    `json:"likes"`
	Comments  *int64    `json:"comments"`
	FetchedAt time.Time `json:"fetched_at"` // set by the catalog
}

// Channel is a channel as the upstream describes it.
type Channel struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Handle      string    `json:"handle,omitempty"`
	Country     string    `json:"country,omitempty"`
	Uploads     string    `json:"uploads,omitempty"` // the playlist of its videos
	PublishedAt time.Time `json:"published_at,omitzero"`
	FetchedAt   time.Time `json:"fetched_at"` // set by the catalog
}

// ScanVideo reads dest and then the columns of a video, as the statement video_find has them.
func ScanVideo(scan Scan, v *Video, dest ...any) error {
	var tags string
	var seconds int64
	var counted Statistics
	err := scan(append(dest, &v.ID, &v.ChannelID, &v.ChannelTitle, &v.Title, &v.Description, &tags, &v.Category, &v.Live,
		&v.Language, &v.Thumbnail, &seconds, &v.PublishedAt, &v.Brief, &v.FetchedAt, &counted.FetchedAt, &counted.Views, &counted.Likes, &counted.Comments)...)
	if err != nil {
		return err
	}
	v.Duration = time.Duration(seconds) * time.Second
	if !counted.FetchedAt.IsZero() {
		counted.VideoID = v.ID
		v.Statistics = &counted
	}
	return v.SetTags(tags)
}

// Video returns a video with its statistics, or [ErrNotFound].
func (e *Engine) Video(ctx context.Context, id string) (v Video, err error) {
	err = e.found(ctx, fmt.Sprintf("video %q", id), func(scan Scan) error { return ScanVideo(scan, &v) }, "video_find", id)
	return v, err
}

// Channel returns a channel, or [ErrNotFound].
func (e *Engine) Channel(ctx context.Context, id string) (ch Channel, err error) {
	err = e.found(ctx, fmt.Sprintf("channel %q", id), func(scan Scan) error {
		return scan(&ch.ID, &ch.Title, &ch.Description, &ch.Handle, &ch.Country, &ch.Uploads, &ch.PublishedAt, &ch.FetchedAt)
	}, "channel_find", id)
	return ch, err
}

// found calls row for every row of a query, which has one at least.
func (e *Engine) found(ctx context.Context, what string, row func(Scan) error, query string, args ...any) error {
	there := false
	err := e.each(ctx, func(scan Scan) error {
		there = true
		return row(scan)
	}, query, args...)
	if err == nil && !there {
		err = fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return err
}

// SetTags reads tags as a catalog stores them.
func (v *Video) SetTags(stored string) error {
	if stored == "[]" {
		return nil
	}
	if err := json.Unmarshal([]byte(stored), &v.Tags); err != nil {
		return fmt.Errorf("video %s: its tags are damaged: %w", v.ID, err)
	}
	return nil
}

// StoredTags returns the tags as a catalog stores them: as a JSON array, which does not
// escape < and &.
func (v *Video) StoredTags() (string, error) {
	if len(v.Tags) == 0 {
		return "[]", nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v.Tags)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// Chart is the last complete chart of a region and category.
type Chart struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at"` // when its first page was fetched
	Entries   []Entry   `json:"entries"`
}

// Entry is a place in a chart. Places of deleted videos are left out.
type Entry struct {
	Rank  int   `json:"rank"`
	Video Video `json:"video"`
}

// Feed says how fresh a chart is.
type Feed struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at,omitzero"` // of the last complete chart; zero without one
	Entries   int       `json:"entries"`
	Pending   int       `json:"pending"` // entries of the chart that is being fetched

	PendingSince time.Time `json:"-"` // when its first page was fetched; zero without one
}

// ErrNoBeginning says that the first pages of a chart are gone: they have expired, or the
// cursor belongs to another chart. Restart the work. The error is an [ErrOutOfStep].
var ErrNoBeginning = fmt.Errorf("%w: the beginning of this chart is gone; restart the work", ErrOutOfStep)

// Chart returns the last complete chart of a region and category, or [ErrNotFound].
func (e *Engine) Chart(ctx context.Context, region, category string) (ch Chart, err error) {
	var entries []Entry
	var at time.Time
	err = e.found(ctx, fmt.Sprintf("chart of %q, category %q", region, category), func(scan Scan) error {
		var one Entry
		var there bool
		err := ScanVideo(scan, &one.Video, &at, &there, &one.Rank)
		if there {
			entries = append(entries, one)
		}
		return err
	}, "chart_find", region, category)
	if err != nil {
		return Chart{}, err
	}
	return Chart{region, category, at, entries}, nil
}

// Feeds returns the freshness of every chart, by region and category.
func (e *Engine) Feeds(ctx context.Context) ([]Feed, error) {
	return list(ctx, e, func(f *Feed) []any {
		return []any{&f.Region, &f.Category, &f.FetchedAt, &f.Entries, &f.PendingSince, &f.Pending}
	}, "feeds")
}
