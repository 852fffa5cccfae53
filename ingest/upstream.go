package ingest

import (
	"context"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
)

// Upstream fetches pages, each by one call or a few, through a client that is
// metered.
type Upstream interface {
	// Trending fetches a page of the chart of a region and category.
	Trending(ctx context.Context, region, category string, at catalog.Cursor) (*catalog.Page, error)
	// Search fetches a page of what matches, the newest first.
	Search(ctx context.Context, q youtube.Query, at catalog.Cursor) (*catalog.Page, error)
	// Uploads fetches a page of what a channel uploaded, the newest first.
	Uploads(ctx context.Context, channel string, at catalog.Cursor) (*catalog.Page, error)
	// Statistics, Videos and Channels fetch what is known already once more, 50
	// ids at most.
	Statistics(ctx context.Context, ids []string) (*catalog.Page, error)
	Videos(ctx context.Context, ids []string) (*catalog.Page, error)
	Channels(ctx context.Context, ids []string) (*catalog.Page, error)
}

var _ Upstream = (*youtube.Client)(nil)
