// Package otel shows the calls and the events of a ledger in OpenTelemetry's traces.
//
//	client := &http.Client{Transport: otel.Calls(tracer, ledger, transport)}
//	ledger, err := quota.New(book, store, &quota.Options{Observer: otel.Observer()})
//
// Names and attributes are our own, such as headroom.outcome, except
// http.response.status_code. Nothing holds an API key, a URL or the key of a family, which
// may be an address.
package otel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/observe/spans"
)

// Observer returns an observer that adds each event of a ledger to the span of the call
// that caused it, as headroom.refused and the like. A caller without a span costs nothing.
func Observer() quota.Observer { return observer{} }

type observer struct{}

// Observe implements [quota.Observer].
func (observer) Observe(ctx context.Context, e quota.Event) {
	s := trace.SpanFromContext(ctx)
	if !s.IsRecording() {
		return
	}
	var all []attribute.KeyValue
	if e.Pool != (quota.Pool{}) {
		all = append(all, spans.PoolOf(e.Pool))
	}
	if e.Host != "" {
		all = append(all, attribute.String("server.address", e.Host))
	}
	if units := max(e.Units, e.Verdict.Units); units != 0 {
		all = append(all, attribute.Int64(spans.AttrUnits, units))
	}
	if v := &e.Verdict; v.Window != "" {
		all = append(all, attribute.String("headroom.window", v.Window), attribute.Int64("headroom.used", v.Used), attribute.Int64("headroom.limit", v.Limit))
		if v.RetryAfter > 0 {
			all = append(all, attribute.Float64("headroom.retry_after", v.RetryAfter.Seconds()))
		}
	}
	s.AddEvent("headroom."+string(e.Kind), trace.WithAttributes(all...))
}
