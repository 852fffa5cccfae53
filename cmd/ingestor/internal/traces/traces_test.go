package traces

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/observe/spans"
)

// TestOff has nothing begun that nobody has asked for.
func TestOff(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	before := runtime.NumGoroutine()
	off := Start(t.Context(), nil)
	if off != nil {
		t.Fatal("traces are sent to nobody")
	}
	ctx, ended := off.Run(t.Context(), &ingest.Job{}, time.Time{})
	ended(&ingest.Report{})
	if ctx != t.Context() {
		t.Error("the context is another one")
	}
	if off.Calls(nil, http.DefaultTransport) != http.DefaultTransport {
		t.Error("calls are followed")
	}
	if next := http.NotFoundHandler(); fmt.Sprintf("%p", off.Requests(next, nil)) != fmt.Sprintf("%p", next) {
		t.Error("requests are followed")
	}
	off.Reserve(t.Context())(nil, quota.ErrRefused)
	off.Stop(t.Context())
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("there were %d goroutines and are %d", before, after)
	}
}

// TestRun has runs that end well and not, for a time of the schedule and not.
func TestRun(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(sent))
	on := &Traces{provider: provider, tracer: provider.Tracer("")}
	at := time.Date(2026, 11, 20, 20, 0, 0, 0, time.FixedZone("", 3600))
	for _, test := range []struct {
		at    time.Time
		state catalog.State
		err   error
		want  string
	}{
		{at, catalog.Done, nil, "[{headroom.job a} {headroom.scheduled 2026-11-20T19:00:00Z} {headroom.state done} {headroom.units 7}] Unset "},
		{time.Time{}, catalog.Deferred, ingest.ErrInterrupted, "[{headroom.job a} {headroom.state deferred} {headroom.units 7}] Unset "},
		{time.Time{}, catalog.Failed, errors.New("broken"), "[{headroom.job a} {headroom.state failed} {headroom.units 7}] Error broken"},
	} {
		_, ended := on.Run(t.Context(), &ingest.Job{Name: "a"}, test.at)
		ended(&ingest.Report{State: test.state, Units: 7, Err: test.err})
		span := sent.GetSpans().Snapshots()[0]
		sent.Reset()
		var told []string
		for _, a := range span.Attributes() {
			told = append(told, fmt.Sprintf("{%s %v}", a.Key, a.Value.AsInterface()))
		}
		if got := fmt.Sprint(told, " ", span.Status().Code, " ", span.Status().Description); got != test.want {
			t.Errorf("it is told as %s, not %s", got, test.want)
		}
	}
}

func TestText(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("no\n way"), "no way"},
		{&url.Error{Op: "Get", URL: "https://host/path?key=1", Err: errors.New("broken")}, "broken"},
		{errors.New("see https://host/path?key=1 and go"), "see [url] and go"},
		{errors.New("bad \xff"), "bad ?"},
		{errors.New(strings.Repeat("é", 1000)), strings.Repeat("é", 151) + " ..."},
	} {
		if got := spans.Text(test.err); got != test.want {
			t.Errorf("%q is told as %q, not %q", test.err, got, test.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	blocked := &quota.RefusedError{}
	blocked.Blocked = true
	for want, err := range map[string]error{
		"granted": nil,
		"refused": fmt.Errorf("call: %w", &quota.RefusedError{}),
		"blocked": blocked,
		"outage":  &quota.OutageError{},
		"failed":  errors.New("broken"),
	} {
		if got := spans.Outcome(err); got != want {
			t.Errorf("%v is %q, not %q", err, got, want)
		}
	}
}

// TestFamily has the pool of a family told without whose page it is.
func TestFamily(t *testing.T) {
	if got := spans.PoolOf(quota.Pool{Upstream: "client", Key: "203.0.113.7"}).Value.AsString(); got != "client" {
		t.Errorf("it is told as %q", got)
	}
}

// TestSecrets has the SDK find fault with a header, whose value the log is not told.
func TestSecrets(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "a-secret,authorization=a-secret%zz")
	var said strings.Builder
	Start(t.Context(), &Options{Log: slog.New(slog.NewTextHandler(&said, nil))}).Stop(t.Context())
	if !strings.Contains(said.String(), "parse headers") || strings.Contains(said.String(), "a-secret") {
		t.Errorf("the log says %s", &said)
	}
}
