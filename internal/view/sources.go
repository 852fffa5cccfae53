package view

import (
	"context"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// Sources are the sources of everything that is shown.
type Sources struct {
	Ledger  *quota.Ledger
	Catalog Catalog
	Runner  *ingest.Runner // says how fresh regions are, and when deferred work goes on; it never runs
	Jobs    []*ingest.Job
}

// Catalog is the part of a catalog that pages, feeds and metrics read. A [catalog.Catalog]
// is one.
type Catalog interface {
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	Feeds(ctx context.Context) ([]catalog.Feed, error)
	Chart(ctx context.Context, region, category string) (catalog.Chart, error)
	Video(ctx context.Context, id string) (catalog.Video, error)
	Search(ctx context.Context, q catalog.Query) (catalog.Results, error)
}
