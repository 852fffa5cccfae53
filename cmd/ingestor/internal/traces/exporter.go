package traces

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/headroom-quota/headroom/quota/observe/spans"
)

// patient is an exporter that logs its first failure as a warning, and later ones at level
// debug. Spans are lost until the collector answers.
type patient struct {
	sdk.SpanExporter
	log    *slog.Logger
	warned sync.Once
}

// ExportSpans implements [sdk.SpanExporter].
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
