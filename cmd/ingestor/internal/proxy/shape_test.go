package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// TestRefusals: a refusal is a 429 with Retry-After in the upstream's own form, and the call
// is not sent.
func TestRefusals(t *testing.T) {
	for format, paths := range map[string]map[string]any{
		"google":     {"error.code": 429.0, "error.status": "RESOURCE_EXHAUSTED", "error.errors.0.reason": "rateLimitExceeded", "error.details.1.@type": "type.googleapis.com/google.rpc.RetryInfo"},
		"openai":     {"error.code": "rate_limit_exceeded", "error.type": "rate_limit_error", "error.param": nil},
		"anthropic":  {"type": "error", "error.type": "rate_limit_error"},
		"github":     {"status": "429", "errors.0.type": "RATE_LIMITED"},
		"stripe":     {"error.code": "rate_limit", "error.type": "invalid_request_error"},
		"notion":     {"object": "error", "status": 429.0, "code": "rate_limited"},
		"discord":    {"retry_after": 90.0, "global": false},
		"twitch":     {"status": 429.0, "error": "Too Many Requests"},
		"salesforce": {"0.errorCode": "REQUEST_LIMIT_EXCEEDED"},
		"aws":        {"__type": "ThrottlingException"},
		"graphql":    {"errors.0.extensions.code": "THROTTLED"},
		"problem":    {"status": 429.0, "title": "Too Many Requests", "code": "blocked", "retry_at": "2026-11-22T22:01:30Z"},
	} {
		t.Run(format, func(t *testing.T) {
			clock := quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC))
			var until time.Time
			r := newRig(t, rigOptions{format: format, clock: clock, change: func(o *Options) { o.Told = func(_ error, at time.Time) { until = at } }})
			pool := quota.Pool{Upstream: "api", Account: "default", Name: "units"}
			if err := r.ledger.BlockFor(t.Context(), pool, 90*time.Second, "the test says so"); err != nil {
				t.Fatal(err)
			}
			got := r.call("GET", "/api/v1/items")
			if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "90" || got.Header.Get("Headroom-Refused") != "blocked" || r.seen() != nil {
				t.Errorf("%s %q", got.Status, got.Header)
			}
			if !until.Equal(clock.Now().Add(90 * time.Second)) {
				t.Errorf("it is told as a lack of units until %s", until)
			}
			if !strings.Contains(got.body, "api/units") || format == "github" && !strings.Contains(got.body, "API rate limit exceeded") {
				t.Errorf("the message is %s", got.body)
			}
			counted := map[string]string{"github": "X-Ratelimit-", "discord": "X-Ratelimit-", "twitch": "Ratelimit-"}[format]
			for name, want := range map[string]string{"Reset": strconv.FormatInt(clock.Now().Unix()+90, 10), "Remaining": "0"} {
				for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
					if value := got.Header.Get(prefix + name); value != want && prefix == counted || value != "" && prefix != counted {
						t.Errorf("%s%s is %q", prefix, name, value)
					}
				}
			}
			if after := got.Header.Get("X-Ratelimit-Reset-After"); (after == "90.000") != (format == "discord") {
				t.Errorf("the reset comes after %q", after)
			}
			if kind := got.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/") || (kind == "application/problem+json") != (format == "problem") {
				t.Errorf("the body is %q", kind)
			}
			if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Www-Authenticate") != "" {
				t.Errorf("a browser or a cache would do something with it: %q", got.Header)
			}
			if exact := got.Header.Get("Retry-After-Ms"); (exact == "90000") != (format == "openai" || format == "anthropic") {
				t.Errorf("in milliseconds it is %q", exact)
			}
			for path, want := range paths {
				if got := member(t, got.body, path); want != nil && got != want {
					t.Errorf("%s is %v, want %v, in %v", path, got, want, got)
				}
			}
			// other errors have the form, too
			req := r.request("GET", "/api/v1/items", nil)
			req.Header.Del("X-Api-Key")
			wrong := r.send(req)
			if wrong.StatusCode != http.StatusUnauthorized || !json.Valid([]byte(wrong.body)) || wrong.Header.Get("Content-Type") != got.Header.Get("Content-Type") || wrong.Header.Get("Www-Authenticate") != "Bearer" || strings.Contains(wrong.body, "retry_at") {
				t.Errorf("%s %q %s", wrong.Status, wrong.Header, wrong.body)
			}
			if code := member(t, wrong.body, "error.code"); (code == "invalid_api_key") != (format == "openai") {
				t.Errorf("the code of a wrong token is %v", code)
			}
		})
	}
}

// TestGitHubHeaders: the headers of a refusal name the pool that refuses, and no time if none
// is known.
func TestGitHubHeaders(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC))
	r := newRig(t, rigOptions{format: "github", clock: clock})
	call := func(ctx context.Context) http.Header {
		req := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/few", nil)
		req.Host = "localhost"
		req.Header.Set("X-Api-Key", theToken)
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		all := http.Header{"Status": {strconv.Itoa(w.Code)}}
		for name, values := range w.Header() {
			if strings.HasPrefix(name, "X-Ratelimit-") {
				all[name] = values
			}
		}
		return all
	}
	run := meter.NewBudget(1)
	run.Add(1)
	want := http.Header{"Status": {"429"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Limit": {"1"}, "X-Ratelimit-Used": {"1"}}
	if diff := cmp.Diff(want, call(meter.WithBudget(t.Context(), run))); diff != "" {
		t.Errorf("the budget of the run is used up (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(http.Header{"Status": {"200"}}, call(t.Context())); diff != "" {
		t.Error(diff)
	}
	want["X-Ratelimit-Resource"], want["X-Ratelimit-Reset"] = []string{"few"}, []string{strconv.FormatInt(clock.Now().Unix()+2, 10)}
	if diff := cmp.Diff(want, call(t.Context())); diff != "" {
		t.Errorf("the pool is used up (-want +got):\n%s", diff)
	}
}

// member returns a member of JSON, by names and places.
func member(t *testing.T, text, path string) any {
	t.Helper()
	var at any
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch in := at.(type) {
		case map[string]any:
			at = in[name]
		case []any:
			i, _ := strconv.Atoi(name)
			if i >= len(in) {
				return nil
			}
			at = in[i]
		default:
			return nil
		}
	}
	return at
}

// TestFailures: what is wrong besides units has a status of its own, and the program does
// not learn what is behind the proxy.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		err                      error
		status                   int
		kind, says, retry, after string
		logged                   bool
	}{
		"broken":     {io.ErrUnexpectedEOF, 502, "upstream", "api could not be reached, or broke off", "", "", true},
		"slow":       {context.DeadlineExceeded, 504, "upstream", "the upstream took too long", "", "", true},
		"other book": {quota.ErrStaleBook, 503, "stale_book", "the price book of the proxy does not match the ledger", "false", "", true},
		"bad key":    {meter.ErrCredential, 502, "credential", "the proxy has no valid key for this account of api; its log has the details", "false", "", true},
		"outage":     {quota.ErrOutage, 503, "outage", "the ledger cannot be reached, so the units left are not known", "", "5", false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			r := newRig(t, rigOptions{change: func(o *Options) {
				o.Base = roundTripper(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("at 10.0.0.1: %w", test.err) })
			}})
			got := r.call("GET", "/api/v1/items")
			if got.StatusCode != test.status || member(t, got.body, "code") != test.kind || member(t, got.body, "detail") != test.says || got.Header.Get("Headroom-Refused") != test.kind ||
				got.Header.Get("X-Should-Retry") != test.retry || got.Header.Get("Retry-After") != test.after {
				t.Errorf("%s %q %s", got.Status, got.Header, got.body)
			}
			if logged := strings.Contains(r.log.String(), `msg="proxied call failed"`) && strings.Contains(r.log.String(), "10.0.0.1"); logged != test.logged {
				t.Errorf("the log has %s", r.log)
			}
		})
	}
	r := newRig(t, rigOptions{})
	r.upstream.Close()
	got := r.call("GET", "/api/v1/items")
	if got.StatusCode != http.StatusBadGateway || strings.Contains(got.body, "127.0.0.1") || !strings.Contains(r.log.String(), "refused") {
		t.Errorf("an upstream that is down: %s %s\n%s", got.Status, got.body, r.log)
	}
	if r.spent("etl") != 0 {
		t.Error("a call that was not sent is charged")
	}
}
