package catalog

import (
	"context"
	"fmt"
	"time"
)

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
