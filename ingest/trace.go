package ingest

import (
	"context"
	"time"
)

// Tracer follows runs and their units of work. Several goroutines call it. Its methods
// receive a context that ends with [Options].Abort, and return one derived from it. The
// calls of the work use the returned context, so that a tracer in the transport can relate
// them to their work.
type Tracer interface {
	// Run is called when a run starts. Scheduled is zero if the run is not for a time of
	// the schedule. The returned function is called with the report of the run.
	Run(ctx context.Context, j *Job, scheduled time.Time) (context.Context, func(*Report))
	// Work is called when a unit of work starts, with the context of its run.
	Work(ctx context.Context, work, region string) (context.Context, func(*WorkReport))
}

// untraced is a tracer that does nothing.
type untraced struct{}

func (untraced) Run(ctx context.Context, _ *Job, _ time.Time) (context.Context, func(*Report)) {
	return ctx, func(*Report) {}
}

func (untraced) Work(ctx context.Context, _, _ string) (context.Context, func(*WorkReport)) {
	return ctx, func(*WorkReport) {}
}
