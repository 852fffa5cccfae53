package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Catalog keeps the fetched data, the cursors of jobs, and the history of runs. It is a
// [catalog.Catalog], or for a rehearsal a [catalog.Sketch] of one.
type Catalog interface {
	NewFence(ctx context.Context, name string) (catalog.Fence, error)
	Begin(ctx context.Context, s catalog.Start) (*catalog.Run, error)
	Cursors(ctx context.Context, job string) ([]catalog.Cursor, error)
	Runs(ctx context.Context, q catalog.RunsQuery) ([]catalog.RunRecord, error)
	ForgetRuns(ctx context.Context, before time.Time) error
	Aging(ctx context.Context, kind catalog.Kind, before time.Time, limit int) ([]string, error)
	Expire(ctx context.Context, l catalog.Limits) (catalog.Expired, error)
}

var (
	_ Catalog = (*catalog.Catalog)(nil)
	_ Catalog = (*catalog.Sketch)(nil)
)
