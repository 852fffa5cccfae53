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

// Options are what [Start] can be told; nil is legal.
type Options struct {
	Log     *slog.Logger // nil is slog.Default()
	Version string       // of the program; "" is not told
}

// Traces sends spans to a collector. A nil one is legal and does nothing. It is safe
// for concurrent use.
type Traces struct {
	provider *sdk.TracerProvider
	to       *patient
	tracer   trace.Tracer
}

// patience is how long the collector may take: for a batch, where the environment does
// not say less, and for what is left when the process leaves.
const patience = 3 * time.Second

// Start begins to send traces where the environment says. It returns nil if the
// environment does not, or says it in a way that cannot be followed; of that it warns,
// because whoever fetches is not to be kept from it by how it is watched.
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
	// The collector is asked once for a batch: those who retry make a process wait that
	// is about to leave.
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		log.Warn("no traces are sent", "error", err)
		return nil
	}
	to := &patient{SpanExporter: exporter, log: log}
	provider := sdk.NewTracerProvider(sdk.WithResource(about(ctx, o.Version, log)), sdk.WithBatcher(to))
	return &Traces{provider, to, provider.Tracer("github.com/headroom-quota/headroom")}
}

// about is who sends the spans. What the environment says of it wins.
func about(ctx context.Context, version string, log *slog.Logger) *resource.Resource {
	own := []attribute.KeyValue{attribute.String("service.name", "ingestor")}
	if version != "" {
		own = append(own, attribute.String("service.version", version))
	}
	r, err := resource.New(ctx, resource.WithAttributes(own...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // r has what could be read
		log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read as a whole; write it as name=value,name=value")
	}
	return r
}

// Stop sends what is left, for a few seconds at most and until the context ends.
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

// span begins one, which is to be ended.
func (t *Traces) span(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if t == nil {
		return ctx, trace.SpanFromContext(nil) //nolint:staticcheck // of nothing: a span that does nothing
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}
