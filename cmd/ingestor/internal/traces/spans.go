package traces

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/observe/otel"
	"github.com/headroom-quota/headroom/quota/observe/spans"
)

var _ ingest.Tracer = (*Traces)(nil)

func (t *Traces) Run(ctx context.Context, j *ingest.Job, scheduled time.Time) (context.Context, func(*ingest.Report)) {
	ctx, s := t.span(ctx, "run", trace.SpanKindInternal, attribute.String(spans.AttrJob, j.Name))
	if !scheduled.IsZero() {
		s.SetAttributes(attribute.String(spans.AttrScheduled, scheduled.UTC().Format(time.RFC3339)))
	}
	return ctx, func(r *ingest.Report) {
		ended(s, r.State, r.Units, r.Err)
	}
}

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

// Requests returns a handler that traces requests to next. A span has the name of the
// route, or "no route", and neither path nor query. Trace headers of clients are ignored.
func (t *Traces) Requests(next http.Handler, route func(*http.Request) string) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pattern := route(r)
		ctx, s := t.span(r.Context(), cmp.Or(pattern, "no route"), trace.SpanKindServer)
		if pattern != "" {
			s.SetAttributes(attribute.String(spans.AttrRoute, pattern))
		}
		answered := &answer{ResponseWriter: w}
		defer func() { // also after a panic, which the server recovers
			s.SetAttributes(attribute.Int(spans.AttrStatus, answered.code()))
			if answered.code() >= http.StatusInternalServerError {
				s.SetStatus(codes.Error, http.StatusText(answered.code()))
			}
			s.End()
		}()
		next.ServeHTTP(answered, r.WithContext(ctx))
	})
}

// answer records the status of an answer.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status < http.StatusOK { // another status follows a 1xx
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// code returns the status, which is 200 by default.
func (a *answer) code() int { return cmp.Or(a.status, http.StatusOK) }

// Reserve traces a reservation until the caller passes its result to the returned
// function.
func (t *Traces) Reserve(ctx context.Context) func(*quota.Reservation, error) {
	_, s := t.span(ctx, "reserve", trace.SpanKindInternal)
	return func(granted *quota.Reservation, err error) {
		s.SetAttributes(attribute.String(spans.AttrOutcome, spans.Outcome(err)))
		var refused *quota.RefusedError
		var impossible *quota.ImpossibleError
		switch {
		case err == nil:
			var units int64
			for _, n := range granted.Charges() {
				units += n
			}
			s.SetAttributes(spans.PoolOf(granted.Pool), attribute.Int64(spans.AttrUnits, units))
		case errors.As(err, &refused):
			s.SetAttributes(spans.PoolOf(refused.Pool), attribute.Int64(spans.AttrUnits, refused.Units))
		case errors.As(err, &impossible):
			s.SetAttributes(spans.PoolOf(impossible.Pool), attribute.Int64(spans.AttrUnits, impossible.Units))
		}
		if errors.Is(err, quota.ErrOutage) {
			spans.Fault(s, err)
		}
		s.End()
	}
}

// Calls returns a transport that traces the calls of base, which the ledger should meter.
// Spans have the method names of the price book.
func (t *Traces) Calls(l *quota.Ledger, metered http.RoundTripper) http.RoundTripper {
	if t == nil {
		return metered
	}
	return otel.Calls(t.tracer, l, metered)
}
