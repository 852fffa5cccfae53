package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Catalog stores fetched data, the position of each job, and the history of runs. A
// [catalog.Catalog] is one. Package plan has another one in memory, for its rehearsals.
type Catalog interface {
	NewFence(ctx context.Context, name string) (catalog.Fence, error)
	Begin(ctx context.Context, s catalog.Start) (catalog.Run, error)
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	ForgetRuns(ctx context.Context, before time.Time) error
	Ages(ctx context.Context, kind catalog.Kind, before time.Time, limit int) ([]catalog.Age, error)
	Expire(ctx context.Context, l catalog.Limits) (catalog.Expired, error)
}

var _ Catalog = (*catalog.Catalog)(nil)
