package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
)

// collector takes what programs send it.
type collector struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	heard bytes.Buffer // headers and bodies
	spans []*otlp.Span
	who   string // of the resource
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// ServeHTTP implements [http.Handler].
func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&c.heard, "%s %v\n%s\n", r.URL, r.Header, body)
	var sent collected.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &sent) != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("this is sent to %s: %q", r.URL, body)
	}
	for _, of := range sent.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				c.who = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// tree writes the spans as a tree, those of one parent sorted by what they say. Only
// these attributes are written.
func (c *collector) tree(attributes ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for _, s := range c.spans {
		known[string(s.SpanId)] = true
	}
	var under func(parent, indent string) string
	under = func(parent, indent string) string {
		var all []string
		for _, s := range c.spans {
			if string(s.ParentSpanId) != parent {
				continue
			}
			line := indent + s.Name
			for _, name := range attributes {
				for _, a := range s.Attributes {
					if a.Key == name {
						_, short, _ := strings.Cut(name, ".")
						line += fmt.Sprintf(" %s=%v", short, told(a.Value))
					}
				}
			}
			if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
				line += " failed: " + s.Status.Message
			}
			all = append(all, line+"\n"+under(string(s.SpanId), indent+"  "))
		}
		slices.Sort(all)
		return strings.Join(all, "")
	}
	for _, s := range c.spans {
		if len(s.ParentSpanId) > 0 && !known[string(s.ParentSpanId)] {
			c.t.Errorf("the parent of %s was not sent", s.Name)
		}
	}
	return under("", "")
}

// told is the value of an attribute.
func told(v *common.AnyValue) any {
	if text, is := v.Value.(*common.AnyValue_StringValue); is {
		return text.StringValue
	}
	return v.GetIntValue()
}

// TestTracesOfARun has a run that the quota cuts short.
func TestTracesOfARun(t *testing.T) {
	f := newFolder(t, 8, "") // of which 3 are not headroom
	c := newCollector(t)
	f.write("key", theKey+"\n")
	f.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "INGESTOR_WORKERS=1"}
	if r := f.run("run", "--once", "--job", "uploads", "--region", "US"); r.code != console.ExitDeferred {
		t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	got := c.tree("headroom.job", "headroom.work", "headroom.region", "headroom.state", "headroom.pages", "headroom.pool", "headroom.units", "headroom.outcome", "http.response.status_code")
	want := strings.TrimPrefix(`
run job=uploads state=deferred units=3
  work work=US/10 region=US state=done pages=2 units=2
    videos.list pool=youtube/units units=1 outcome=answered response.status_code=200
    videos.list pool=youtube/units units=1 outcome=answered response.status_code=200
  work work=US/20 region=US state=deferred pages=1 units=1
    videos.list pool=youtube/units units=1 outcome=answered response.status_code=200
    videos.list pool=youtube/units units=1 outcome=refused
`, "\n")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if c.who != "ingestor" {
		t.Errorf("they are of the service %q", c.who)
	}
	for _, secret := range []string{theKey, "googleapis.com", "regionCode", "maxResults", "127.0.0.1/"} {
		if strings.Contains(c.heard.String(), secret) {
			t.Errorf("%q is sent to the collector", secret)
		}
	}
}

// TestTracesOfFailures has an upstream that is not well, and a backfill.
func TestTracesOfFailures(t *testing.T) {
	f := newFolder(t, 1000, "")
	c := newCollector(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusForbidden, "quotaExceeded", "see https://example.org/quota?key=1")
	}))
	t.Cleanup(server.Close)
	f.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "INGESTOR_ENDPOINT=" + server.URL}
	if r := f.run("backfill", "--query", "eclipse", "--region", "US", "--since", "2026-01-01", "--until", "2026-02-01"); r.code != console.ExitDeferred {
		t.Fatalf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	got := c.tree("headroom.state", "headroom.pool", "headroom.outcome", "http.response.status_code")
	want := strings.TrimPrefix(`
run state=deferred
  work state=deferred
    search.list pool=youtube/searches outcome=answered response.status_code=403 failed: Forbidden
    search.list pool=youtube/searches outcome=blocked
`, "\n")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if strings.Contains(c.heard.String(), "example.org") {
		t.Error("a URL is sent to the collector")
	}
}

// TestTracesOfAServer has one span for each request, and in it one for what is reserved.
func TestTracesOfAServer(t *testing.T) {
	f := newFolder(t, 8, "")
	c := newCollector(t)
	s := f.serve("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+c.url+"/v1/traces", "OTEL_SERVICE_NAME=mine", settings.TokenVariable+"="+theToken)
	var into map[string]any
	s.get(http.DefaultClient, "/api/v1/search?q=neverInASpan", &into)
	for _, path := range []string{"/neverInASpan", "//api/v1/../neverInASpan", "/api/v1/videos/neverInASpan"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url.String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "neverInASpan")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	for _, body := range []string{
		`{"pool": "units", "units": 2, "job": "neverInASpan"}`,
		`{"pool": "units", "units": 3}`,
		`{"pool": "units", "units": 4}`,
		`{"method": "neverInASpan"}`,
	} {
		s.reserve("Bearer "+theToken, body)
	}
	s.stop()
	got := c.tree("headroom.outcome", "headroom.pool", "headroom.units", "http.response.status_code")
	want := strings.TrimPrefix(`
GET /api/v1/search response.status_code=200
GET /api/v1/videos/{id} response.status_code=404
POST /v1/reserve response.status_code=200
  reserve outcome=granted pool=youtube/units units=2
POST /v1/reserve response.status_code=422
  reserve outcome=impossible pool=youtube/units units=4
POST /v1/reserve response.status_code=422
  reserve outcome=unpriced
POST /v1/reserve response.status_code=429
  reserve outcome=refused pool=youtube/units units=3
no route response.status_code=307
no route response.status_code=404
`, "\n")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if c.who != "mine" {
		t.Errorf("they are of the service %q", c.who)
	}
	for _, secret := range []string{theToken, "neverInASpan", "127.0.0.1"} {
		if strings.Contains(strings.ReplaceAll(c.heard.String(), c.url, ""), secret) {
			t.Errorf("%q is sent to the collector", secret)
		}
	}
}

// TestNoCollector has collectors that are of no use: the run ends as if there were none,
// and says so once.
func TestNoCollector(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(refusing.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nobody ends it but the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	c := newCollector(t)
	for name, env := range map[string][]string{
		"not there":           {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"},
		"unavailable":         {"OTEL_EXPORTER_OTLP_ENDPOINT=" + refusing.URL, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1"},
		"silent":              {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent.Addr().String()},
		"of another protocol": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"},
		"no URL":              {"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318"},
		"named wrongly":       {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS=" + theToken, "OTEL_TRACES_SAMPLER=always_off"},
		"disabled":            {"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_SDK_DISABLED=true"},
		"none":                nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, 8, "")
			f.env = env
			r := f.run("run", "--once", "--job", "uploads", "--region", "US")
			if r.code != console.ExitDeferred {
				t.Errorf("left with %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			warnings := 1
			if name == "disabled" || name == "none" {
				warnings = 0
			}
			if n := strings.Count(r.stderr, `"WARN"`); n != warnings || strings.Contains(r.stderr, theToken) {
				t.Errorf("it warns %d times:\n%s", n, r.stderr)
			}
		})
	}
	t.Cleanup(func() {
		if c.heard.Len() > 0 {
			t.Errorf("the collector is sent %q", c.heard.String())
		}
	})
}
