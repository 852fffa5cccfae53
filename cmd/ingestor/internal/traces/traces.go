package traces

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options are the settings of [Start]; nil is legal.
type Options struct {
	Log     *slog.Logger // nil is slog.Default()
	Version string       // of the program; "" leaves it out
}

// Traces sends spans to a collector. A nil *Traces is legal and does nothing. It is safe
// for concurrent use.
type Traces struct {
	provider *sdk.TracerProvider
	to       *patient
	tracer   trace.Tracer
}

// patience is the timeout for a batch, unless the environment sets a shorter one, and for
// the last spans when the process ends.
const patience = 3 * time.Second

// Start starts sending traces if the environment names a collector, and otherwise returns
// nil. It also returns nil, with a warning in the log, if a variable is invalid: bad
// settings for traces must not stop a run.
func Start(ctx context.Context, o *Options) *Traces {
	if o == nil {
		o = &Options{}
	}
	log := o.Log
	if log == nil {
		log = slog.Default()
	}
	on, err := wanted()
	if err != nil {
		log.Warn("no traces are sent", "error", err)
	}
	if !on {
		return nil
	}
	listen(log)
	// A batch is sent once: retries would delay the end of the process.
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		log.Warn("no traces are sent", "error", err)
		return nil
	}
	to := &patient{SpanExporter: exporter, log: log}
	provider := sdk.NewTracerProvider(sdk.WithResource(about(ctx, o.Version, log)), sdk.WithBatcher(to))
	return &Traces{provider, to, provider.Tracer("github.com/headroom-quota/headroom")}
}

// about returns the resource that sends the spans. The environment overrides it.
func about(ctx context.Context, version string, log *slog.Logger) *resource.Resource {
	own := []attribute.KeyValue{attribute.String("service.name", "ingestor")}
	if version != "" {
		own = append(own, attribute.String("service.version", version))
	}
	r, err := resource.New(ctx, resource.WithAttributes(own...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // r holds the valid part
		log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read as a whole; write it as name=value,name=value")
	}
	return r
}

// Stop sends the last spans. It takes a few seconds at most, and ends with the context.
func (t *Traces) Stop(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.provider.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		t.to.warn(err)
	}
}

// span starts a span, which the caller must end.
func (t *Traces) span(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(nil) //nolint:staticcheck // a span that does nothing
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}
