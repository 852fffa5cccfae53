package ingest

import (
	"context"
	"time"
)

// Tracer follows runs and their units of work. It is called from several goroutines.
// The context that it is given ends with [Options].Abort, and the one that it returns
// must be made of that: the calls of the work are made under it, so that who follows
// them, in the transport, knows for what they are made.
type Tracer interface {
	// Run is told of a run that begins; zero is a run for no time of the schedule. The
	// function that it returns is told what came of it.
	Run(ctx context.Context, j *Job, scheduled time.Time) (context.Context, func(*Report))
	// Work is told of a unit of work that begins, with the context of its run.
	Work(ctx context.Context, work, region string) (context.Context, func(*WorkReport))
}

// untraced follows nothing.
type untraced struct{}

func (untraced) Run(ctx context.Context, _ *Job, _ time.Time) (context.Context, func(*Report)) {
	return ctx, func(*Report) {}
}

func (untraced) Work(ctx context.Context, _, _ string) (context.Context, func(*WorkReport)) {
	return ctx, func(*WorkReport) {}
}
