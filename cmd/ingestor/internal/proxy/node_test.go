package proxy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

const nodeToken = "a-token-of-the-programs-0123456789"

// nodeBook prices the calls that the clients make.
const nodeBook = `
revision: 1
upstreams:
  youtube:
    hosts: [youtube.googleapis.com]
    api_key: {header: X-Goog-Api-Key, query: key}
    error_format: google
    pools: {units: {quota: 1000, windows: [{per: day}]}}
    methods: {videos.list: {route: GET /youtube/v3/videos, pool: units, cost: 1}}
  github:
    hosts: [api.github.com]
    api_key: {header: Authorization}
    error_format: github
    pools: {core: {quota: 1000, windows: [{per: 1h}]}}
    methods:
      issues.list: {route: "GET /repos/{owner}/{repo}/issues", pool: core, cost: 1}
      issues.get: {route: "GET /repos/{owner}/{repo}/issues/{number}", pool: core, cost: 1}
  openai:
    hosts: [api.openai.com]
    api_key: {header: Authorization}
    error_format: openai
    pools: {requests: {quota: 1000, windows: [{per: 1m}]}, tokens: {quota: 100000, windows: [{per: 1m}]}}
    methods:
      chat: {route: POST /v1/chat/completions, charge: {requests: 1, tokens: {estimate: {body: max_completion_tokens, default: 100}, actual: {body: usage.total_tokens}}}}
  anthropic:
    hosts: [api.anthropic.com]
    api_key: {header: X-Api-Key}
    error_format: anthropic
    pools: {requests: {quota: 1000, windows: [{per: 1m}]}, tokens: {quota: 100000, windows: [{per: 1m}]}}
    methods:
      messages: {route: POST /v1/messages, charge: {requests: 1, tokens: {estimate: {body: max_tokens, default: 100}, actual: {body: usage.output_tokens}}}}
`

// TestNodeClients calls through the proxy with googleapis, octokit, openai and
// @anthropic-ai/sdk as npm has them.
func TestNodeClients(t *testing.T) {
	t.Parallel()
	dir := nodeFolder(t)
	costs, err := book.Parse("costs.yaml", []byte(nodeBook), nil)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := access.New("node", nodeToken)
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(&apis{t: t, youtube: youtubesim.New(&youtubesim.Options{Seed: 1})})
	defer upstream.Close()
	to, _ := url.Parse(upstream.URL)
	keys := map[string]meter.KeySource{}
	for name := range costs.Upstreams {
		keys[name] = meter.Key("the key of " + name)
	}
	said := &logged{}
	h, err := proxy.New(ledger, []*access.Token{token.Bound(&access.Grant{Upstreams: []string{"youtube", "github", "openai", "anthropic"}})},
		&proxy.Options{Keys: keys, Base: elsewhere{to}, Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	proxied := httptest.NewServer(h)
	defer proxied.Close()
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pool := quota.Pool{Upstream: r.FormValue("upstream"), Account: quota.DefaultAccount, Name: r.FormValue("pool")}
		seconds, _ := strconv.Atoi(r.FormValue("seconds"))
		err := ledger.Admin().Unblock(r.Context(), pool)
		if seconds > 0 {
			err = errors.Join(err, ledger.BlockFor(r.Context(), pool, time.Duration(seconds)*time.Second, "the test says so"))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer control.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "clients.mjs", proxied.URL, nodeToken, control.URL)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("node: %v", err)
	}
	for _, name := range []string{"googleapis", "octokit_without_throttling", "octokit_with_throttling", "openai", "anthropic"} {
		if !strings.Contains(string(out), "ok "+name+"\n") {
			t.Errorf("%s does not work through the proxy", name)
		}
	}
	if t.Failed() {
		t.Logf("%s\nThe proxy logged:\n%s", out, said)
	}
}

// logged is a log that is read at the end.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// nodeFolder returns a folder with the clients. If they cannot be had, the test is skipped and
// says so, unless they could be had before on this machine.
func nodeFolder(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("SKIPPED: there is no place for the clients of npm: %v", err)
	}
	lock, err := os.ReadFile("node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(cache, "headroom-clients")
	dir, there := filepath.Join(all, fmt.Sprintf("%x", sha256.Sum256(lock))[:16]), filepath.Join(all, "were-there")
	missing := func(format string, args ...any) {
		t.Helper()
		if _, err := os.Stat(there); err == nil {
			t.Fatalf("the clients of npm were there before, and now: "+format, args...)
		}
		t.Skipf("SKIPPED: googleapis, octokit, openai and @anthropic-ai/sdk are not tested: "+format, args...)
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			missing("%v", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json", "clients.mjs"} {
		text, err := os.ReadFile(filepath.Join("node", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	done := filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err != nil {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			missing("npm ci: %v\n%s", err, out)
		}
		if err := errors.Join(os.WriteFile(done, nil, 0o600), os.WriteFile(there, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// elsewhere sends every request to one server.
type elsewhere struct{ to *url.URL }

func (e elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.Host = req.URL.Host
	out.URL.Scheme, out.URL.Host = e.to.Scheme, e.to.Host
	return http.DefaultTransport.RoundTrip(out)
}

// apis answers like four APIs, by the host that is asked for.
type apis struct {
	t       *testing.T
	youtube http.Handler
}

func (a *apis) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, header := "youtube", "X-Goog-Api-Key"
	switch r.Host {
	case "api.github.com":
		name, header = "github", "Authorization"
	case "api.openai.com":
		name, header = "openai", "Authorization"
	case "api.anthropic.com":
		name, header = "anthropic", "X-Api-Key"
	}
	if r.Header.Get(header) != "the key of "+name || strings.Contains(fmt.Sprint(r.Header, r.URL), nodeToken) {
		a.t.Errorf("%s got %s with %q", name, r.URL, r.Header)
	}
	body, _ := io.ReadAll(r.Body)
	stream := bytes.Contains(body, []byte(`"stream":true`))
	if name != "youtube" {
		w.Header().Set("Content-Type", "application/json")
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
		}
	}
	switch name {
	case "youtube":
		a.youtube.ServeHTTP(w, r)
	case "github":
		issues(w, r)
	case "openai":
		answer(w, stream, `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"total_tokens":7}}`,
			"", `{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hel"}}]}`,
			"", `{"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"lo"}}]}`,
			"", `{"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"total_tokens":7}}`, "", "[DONE]")
	case "anthropic":
		answer(w, stream, `{"id":"1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`,
			"message_start", `{"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`,
			"content_block_stop", `{"type":"content_block_stop","index":0}`,
			"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
			"message_stop", `{"type":"message_stop"}`)
	}
}

// answer sends a whole answer, or events with their data.
func answer(w http.ResponseWriter, stream bool, whole string, events ...string) {
	if !stream {
		_, _ = io.WriteString(w, whole)
		return
	}
	for i := 0; i < len(events); i += 2 {
		if events[i] != "" {
			_, _ = fmt.Fprintf(w, "event: %s\n", events[i])
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", events[i+1])
		_ = http.NewResponseController(w).Flush()
	}
}

// issues answers with one issue, or with a page of two of five.
func issues(w http.ResponseWriter, r *http.Request) {
	type issue struct {
		Number int `json:"number"`
	}
	if number, err := strconv.Atoi(filepath.Base(r.URL.Path)); err == nil {
		_ = json.NewEncoder(w).Encode(issue{number})
		return
	}
	page, _ := strconv.Atoi(r.FormValue("page"))
	page = max(page, 1)
	all := []issue{{1}, {2}, {3}, {4}, {5}}
	if page < 3 {
		w.Header().Set("Link", fmt.Sprintf(`<https://api.github.com%s?per_page=2&page=%d>; rel="next"`, r.URL.Path, page+1))
	}
	_ = json.NewEncoder(w).Encode(all[2*(page-1) : min(2*page, 5)])
}
