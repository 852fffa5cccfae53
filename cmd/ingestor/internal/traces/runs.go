package traces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota/observe/spans"
)

var _ ingest.Tracer = (*Traces)(nil)

// Run implements [ingest.Tracer].
func (t *Traces) Run(ctx context.Context, j *ingest.Job, scheduled time.Time) (context.Context, func(*ingest.Report)) {
	ctx, s := t.span(ctx, "run", trace.SpanKindInternal, attribute.String(spans.AttrJob, j.Name))
	if !scheduled.IsZero() {
		s.SetAttributes(attribute.String(spans.AttrScheduled, scheduled.UTC().Format(time.RFC3339)))
	}
	return ctx, func(r *ingest.Report) {
		ended(s, r.State, r.Units, r.Err)
	}
}

// Work implements [ingest.Tracer].
func (t *Traces) Work(ctx context.Context, work, region string) (context.Context, func(*ingest.WorkReport)) {
	ctx, s := t.span(ctx, "work", trace.SpanKindInternal, attribute.String(spans.AttrWork, work))
	if region != "" {
		s.SetAttributes(attribute.String(spans.AttrRegion, region))
	}
	return ctx, func(r *ingest.WorkReport) {
		s.SetAttributes(attribute.Int(spans.AttrPages, r.Pages))
		ended(s, r.State, r.Units, r.Err)
	}
}

// ended ends the span of a run or of work. Deferred work is no failure.
func ended(s trace.Span, state catalog.State, units int64, err error) {
	s.SetAttributes(attribute.String(spans.AttrState, string(state)), attribute.Int64(spans.AttrUnits, units))
	if state == catalog.Failed {
		spans.Fault(s, err)
	}
	s.End()
}
