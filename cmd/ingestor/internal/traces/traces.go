// Package traces sends spans to an OpenTelemetry collector. A run has a span, with a span
// for each unit of work in it, and in that one for each call of the upstream. A request to
// the server has a span, with one for its reservation.
//
// Traces are off unless OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
// names a collector. The other standard variables work, such as OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS and
// OTEL_SDK_DISABLED. The protocol is http/protobuf.
//
// A collector that does not answer delays nothing. Spans wait in a bounded queue, sending
// times out after a few seconds, also on exit, and the log gets one warning.
//
// Spans hold no API key, URL, client address or fetched data. A unit of work has the same
// name as in the log, so the name of a search includes its query. Names and attributes are
// our own, such as headroom.outcome, except http.route, http.response.status_code and those
// of the resource.
package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/headroom-quota/headroom/quota/observe/spans"
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
	o = cmp.Or(o, &Options{})
	log := cmp.Or(o.Log, slog.Default())
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

// variable returns the value and the name of the standard variable for traces or, if that
// is not set, of the one for all signals.
func variable(signal, general string) (name, value string) {
	for _, name := range []string{signal, general} {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

// wanted reports whether the environment asks for traces. Its error says which variable is
// wrong and how to fix it.
func wanted() (bool, error) {
	name, endpoint := variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	off := strings.EqualFold(strings.TrimSpace(os.Getenv("OTEL_SDK_DISABLED")), "true")
	exporter := cmp.Or(strings.TrimSpace(os.Getenv("OTEL_TRACES_EXPORTER")), "otlp")
	if endpoint == "" || off || exporter == "none" {
		return false, nil
	}
	if exporter != "otlp" {
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %.40q, and there is otlp only; unset it, or write none", exporter)
	}
	if by, protocol := variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); by != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("%s is %.40q, and there is http/protobuf only; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, and %s to where the collector takes that, mostly its port 4318", by, protocol, name)
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" { // the value is not shown, because it may hold a password
		return false, fmt.Errorf("%s is not a URL; write it as http://localhost:4318", name)
	}
	return true, nil
}

// patient is an exporter that logs its first failure as a warning, and later ones at level
// debug. Spans are lost until the collector answers.
type patient struct {
	sdk.SpanExporter
	log    *slog.Logger
	warned sync.Once
}

func (p *patient) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.SpanExporter.ExportSpans(ctx, batch); err != nil {
		p.log.Debug("traces were not taken", "spans", len(batch), "error", spans.Bounded(err.Error()))
		p.warn(err)
	}
	return nil
}

func (p *patient) warn(err error) {
	p.warned.Do(func() {
		p.log.Warn("the collector does not take traces; what it does not take is lost, and nothing else is the worse for it", "error", spans.Bounded(err.Error()))
	})
}

// listen sends errors of the SDK to the log, instead of standard error. It hides the values
// of variables, some of which are secret.
func listen(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("of traces", "error", spans.Bounded(err.Error()))
	}))
	otel.SetLogger(funcr.New(func(_, args string) {
		log.Warn("of traces: a variable of OTEL_ is not as it should be", "about", spans.Bounded(args))
	}, funcr.Options{RenderArgsHook: func(pairs []any) []any {
		pairs = slices.Clone(pairs)
		for i := 0; i+1 < len(pairs); i += 2 {
			if name := fmt.Sprint(pairs[i]); name == "input" || name == "value" {
				pairs[i+1] = "(not shown)"
			}
		}
		return pairs
	}}))
}
