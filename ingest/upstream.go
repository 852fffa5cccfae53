package ingest

import (
	"context"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/youtube"
)

// Upstream fetches pages. Each page takes one call or a few, through a metered client.
type Upstream interface {
	// Trending fetches a page of the chart of a region and category.
	Trending(ctx context.Context, region, category string, at catalog.Cursor) (*catalog.Page, error)
	// Search fetches a page of matching videos, newest first.
	Search(ctx context.Context, q youtube.Query, at catalog.Cursor) (*catalog.Page, error)
	// Uploads fetches a page of the uploads of a channel, newest first.
	Uploads(ctx context.Context, channel string, at catalog.Cursor) (*catalog.Page, error)
	// Statistics, Videos and Channels fetch known videos or channels again, 50 ids at
	// most.
	Statistics(ctx context.Context, ids []string) (*catalog.Page, error)
	Videos(ctx context.Context, ids []string) (*catalog.Page, error)
	Channels(ctx context.Context, ids []string) (*catalog.Page, error)
}

var _ Upstream = (*youtube.Client)(nil)
