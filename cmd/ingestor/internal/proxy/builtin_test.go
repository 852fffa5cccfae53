package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// load loads a built-in price book.
func load(t *testing.T, name string) *quota.Book {
	t.Helper()
	costs, err := headroom.Load("builtin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return costs
}

// builtinRig is a proxy with a built-in price book, in front of an upstream that is a function.
func builtinRig(t *testing.T, name string, upstream func(*http.Request) *http.Response) (address string) {
	t.Helper()
	ledger, err := quota.New(load(t, name), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	key := func(context.Context) (string, error) { return theKey, nil }
	h, err := New(ledger, tokensOf(t, Grant{Upstreams: []string{name}, Accounts: []string{"*"}}), &Options{
		Log: slog.New(slog.DiscardHandler), Keys: map[string]meter.KeySource{name: key, name + "@*": key},
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := upstream(req)
			resp.Request = req
			return resp, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// answerOf is an answer of an upstream in JSON.
func answerOf(body string, header ...string) *http.Response {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// get makes a call with the token, and returns the status of the answer and its headers.
func get(t *testing.T, verb, address string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Headroom-Token", theToken)
	if !strings.Contains(address, "/bedrock/") { // its first host names the account
		req.Header.Set("Headroom-Account", "default")
	}
	resp, err := still.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// TestBuiltinBooksGiveTheirCallsTheKey: with a built-in book as it is, the calls that programs make
// reach the upstream with the key.
func TestBuiltinBooksGiveTheirCallsTheKey(t *testing.T) {
	for name, calls := range map[string][]string{
		"reddit": {
			"GET /api/v1/me", "GET /r/golang/new", "GET /r/golang/comments/abc123", "GET /user/spez/about", "GET /search", "GET /subreddits/mine/subscriber",
			"GET /message/inbox", "POST /api/comment", "POST /api/submit", "POST /api/vote", "GET /comments/abc123", "GET /best", "GET /", "GET /.json",
		},
		"github": {
			"GET /repositories/1296269/issues", "GET /organizations/9919/repos", "GET /enterprises/acme/audit-log", "POST /enterprises/acme/teams",
			"GET /", "GET /meta", "GET /emojis", "GET /feeds", "GET /licenses/mit", "GET /gitignore/templates", "GET /rate_limit", "GET /teams/1/members",
			"GET /repos/o/r/commits", "GET /repos/o/r/contents/a/b.go", "PUT /repos/o/r/contents/a/b.go", "HEAD /repos/o/r", "GET /orgs/o/repos", "GET /users/octocat",
			"GET /search/repositories", "GET /networks/o/r/events", "GET /advisories", "POST /markdown", "GET /codes_of_conduct", "GET /versions", "GET /assignments/1",
			"GET /repos/o/r/contents/docs%2Fa%20b.md", "PUT /repos/o/r/contents/docs%2Fa.md", "GET /repos/o/r/git/ref/heads%2Fmain", "GET /repos/o/r/branches/fix%2F1",
			"GET /classrooms", "GET /marketplace_listing/plans", "GET /projects/1", "GET /octocat", "GET /zen", "POST /graphql", "GET /repositories", "GET /organizations",
		},
		"hubspot": {
			"GET /crm/v3/objects/contacts", "POST /crm/v3/objects/contacts/search", "POST /crm/v3/objects/contacts/batch/read", "GET /crm/v4/associations/contacts/deals/labels",
			"GET /contacts/v1/lists/all/contacts/all", "GET /owners/v2/owners", "GET /properties/v1/contacts/properties", "GET /webhooks/v3/1/subscriptions", "GET /events/v3/events",
			"GET /integrations/v1/me", "GET /oauth/v1/access-tokens/x", "GET /communication-preferences/v3/definitions", "GET /email/public/v1/events", "GET /deals/v1/deal/paged",
			"GET /engagements/v1/engagements/paged", "GET /account-info/v3/details", "GET /automation/v4/flows", "GET /business-units/v3/business-units/user/1", "GET /forms/v2/forms",
			"GET /files/v3/files/search", "GET /cms/v3/blogs/posts", "GET /marketing/v3/forms", "GET /settings/v3/users", "GET /conversations/v3/conversations/threads",
		},
		"notion": {
			"POST /v1/search", "GET /v1/users", "GET /v1/users/me", "POST /v1/pages", "GET /v1/pages/1", "PATCH /v1/blocks/1/children", "POST /v1/databases/1/query",
			"POST /v1/data_sources/1/query", "POST /v1/file_uploads", "GET /v1/views/1", "GET /v1/comments",
		},
		"discord": {
			"GET /api/v10/users/@me", "GET /api/v10/channels/1/messages", "POST /api/v10/channels/1/messages", "GET /api/v10/guilds/1/members", "GET /api/v10/gateway/bot",
			"GET /api/v10/applications/@me", "PUT /api/v10/applications/1/commands", "GET /api/v10/invites/abc", "GET /api/v10/sticker-packs", "GET /api/v10/stickers/1", "GET /api/v10/voice/regions",
		},
		"openai": {
			"GET /v1/models", "POST /v1/conversations", "GET /v1/conversations/1/items", "POST /v1/fine_tuning/jobs", "GET /v1/files", "POST /v1/videos", "POST /v1/evals",
			"GET /v1/vector_stores", "GET /v1/batches", "POST /v1/containers", "POST /v1/realtime/client_secrets", "GET /v1/responses/1",
		},
		"anthropic": {
			"GET /v1/models", "GET /v1/messages/batches", "GET /v1/files", "GET /v1/skills", "POST /v1/skills", "GET /v1/agents", "POST /v1/sessions", "GET /v1/sessions/1/stream",
			"GET /v1/environments", "GET /v1/organizations/rate_limits",
		},
		"gemini": {
			"GET /v1beta/models", "GET /v1beta/files", "POST /upload/v1beta/files", "GET /v1beta/cachedContents", "POST /v1beta/cachedContents", "GET /v1beta/batches/1",
			"GET /v1beta/fileSearchStores", "POST /v1beta/models/m:batchGenerateContent", "POST /v1beta/models/m:predict", "GET /v1beta/interactions/1", "GET /v1beta/tunedModels",
		},
		"slack": {
			"POST /api/files.getUploadURLExternal", "GET /api/conversations.list", "GET /api/users.list", "POST /api/auth.test", "GET /api/conversations.history", "GET /api/conversations.members", "GET /api/files.list",
		},
		"shopify": {"GET /admin/api/2026-10/products.json", "POST /admin/api/2026-10/graphql.json", "GET /admin/oauth/access_scopes.json"},
		"salesforce": {
			"GET /services/data", "GET /services/data/v64.0/query", "GET /services/data/v64.0/query/01g-2000", "POST /services/data/v64.0/sobjects/Account",
			"POST /services/data/v64.0/composite", "GET /services/oauth2/userinfo", "POST /services/apexrest/x/y", "GET /services/async/64.0/job/1",
		},
		"bedrock": {
			"POST /model/anthropic.claude-sonnet-5-v1%3A0/converse", "POST /model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.a/converse",
			"POST /model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.a/invoke-with-response-stream", "POST /guardrail/g/version/1/apply",
			"GET /async-invoke/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aasync-invoke%2Fa", "GET /async-invoke",
		},
		"ga4": {"GET /v1beta/properties/1/metadata", "POST /v1alpha/properties/1/reportTasks", "GET /v1alpha/properties/1/propertyQuotasSnapshot", "GET /v1beta/properties/1/audienceExports"},
	} {
		t.Run(name, func(t *testing.T) {
			var sent *http.Request
			proxy := builtinRig(t, name, func(req *http.Request) *http.Response {
				sent = req
				return answerOf(`{}`)
			})
			carries := load(t, name).Upstreams[name].Key.Header
			for _, call := range calls {
				sent = nil
				verb, path, _ := strings.Cut(call, " ")
				status, _, text := get(t, verb, proxy+"/"+name+path)
				if status != http.StatusOK || sent == nil || sent.Header.Get(carries) != theKey || sent.URL.EscapedPath() != path {
					t.Errorf("%s: %d %s, sent %v", call, status, text, sent)
				}
			}
			// Other hosts get nothing, and neither does a path that another server may read otherwise.
			for _, path := range []string{"/" + name + "@evil.example/x", "/" + name + "@" + name + ".com/x", "/" + name + "//evil.example/x", "/" + name + "/a/%2e%2e/x", "/" + name + "/a%2F..%2Fx", "/" + name + "/a%2F%2Fx", "/" + name + "/a%5Cx", "/" + name + "/a%252Fx", "/" + name + "/batch", "/" + name + "/batch%2Fx", "/" + name + "/a;b/../x"} {
				sent = nil
				if status, _, text := get(t, "POST", proxy+path); status == http.StatusOK || sent != nil {
					t.Errorf("%s: %d %s, sent %v", path, status, text, sent)
				}
			}
		})
	}
}

// TestEscapedSlash: a path with an escaped slash is not sent if it could mean another method.
func TestEscapedSlash(t *testing.T) {
	for _, call := range []string{
		"GET /github/search%2Fcode", "POST /github/repos/o/r%2Fissues", "POST /github/repos/o/r/commits/heads%2Fmain/comments", "POST /slack/api%2Fchat.postMessage", "POST /slack/api/chat.postMessage%2F",
		"PUT /jira@acme.atlassian.net/rest/api/3/issue%2FK-1", "POST /stripe/v1%2Fcustomers",
	} {
		verb, path, _ := strings.Cut(call, " ")
		name, _, _ := strings.Cut(path[1:], "/")
		name, _, _ = strings.Cut(name, "@")
		proxy := builtinRig(t, name, func(req *http.Request) *http.Response {
			t.Errorf("%s is sent as %s", call, req.URL)
			return answerOf(`{}`)
		})
		if status, _, text := get(t, verb, proxy+path); status != http.StatusBadRequest && status != http.StatusNotFound {
			t.Errorf("%s: %d %s", call, status, text)
		}
	}
}

// TestGitHubPagesHaveTheKey: the pages that GitHub's Link headers name go through the proxy, with the
// key and at a price. GitHub names a repository and an organisation by their numbers there.
func TestGitHubPagesHaveTheKey(t *testing.T) {
	var paths []string
	proxy := builtinRig(t, "github", func(req *http.Request) *http.Response {
		paths = append(paths, req.URL.RequestURI())
		if req.Header.Get("Authorization") != theKey {
			t.Errorf("%s has no key", req.URL)
		}
		if req.URL.Query().Get("page") == "3" {
			return answerOf(`[]`)
		}
		next := "2"
		if req.URL.Query().Get("page") == "2" {
			next = "3"
		}
		return answerOf(`[]`, "Link", `<https://api.github.com/repositories/1296269/issues?per_page=1&page=`+next+`>; rel="next"`)
	})
	address := proxy + "/github/repos/octocat/hello-world/issues?per_page=1"
	for address != "" {
		status, header, text := get(t, "GET", address)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", address, status, text)
		}
		_, after, _ := strings.Cut(header.Get("Link"), "<")
		address, _, _ = strings.Cut(after, ">")
	}
	want := "/repos/octocat/hello-world/issues?per_page=1 /repositories/1296269/issues?per_page=1&page=2 /repositories/1296269/issues?per_page=1&page=3"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("the upstream got %s, want %s", got, want)
	}
}

// TestWebSockets: a method that says so may become a WebSocket. The handshake has the key and costs
// what the method costs, and the slot is taken until the connection ends.
func TestWebSockets(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Api-Key") != theKey || req.Header.Get("Sec-Websocket-Key") != "c2FtcGxl" || req.Header.Get("Headroom-Token") != "" || !strings.EqualFold(req.Header.Get("Connection"), "upgrade") {
			t.Errorf("the upstream got %v", req.Header)
		}
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
		_ = buffer.Flush()
		_, _ = io.Copy(conn, buffer) // an echo, until the program leaves
	}))
	t.Cleanup(upstream.Close)
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  live:
    hosts: ["`+strings.TrimPrefix(upstream.URL, "http://")+`"]
    api_key: {header: X-Api-Key}
    pools: {units: {quota: 100, windows: [{per: 1h}]}, sessions: {windows: [{in_flight: 1}]}}
    methods:
      realtime: {route: GET /v1/realtime, upgrade: true, charge: {units: 3, sessions: 1}}
      plain: {route: GET /v1/plain, charge: {units: 1}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(ledger, tokensOf(t, Grant{Upstreams: []string{"live"}}), &Options{Log: slog.New(slog.DiscardHandler), Keys: map[string]meter.KeySource{"live": meter.Key(theKey)}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	dial := func(path string) (net.Conn, *bufio.Reader, int) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "GET /live%s HTTP/1.1\r\nHost: localhost\r\nHeadroom-Token: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: c2FtcGxl\r\nSec-WebSocket-Version: 13\r\n\r\n", path, theToken)
		reader := bufio.NewReader(conn)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return conn, reader, resp.StatusCode
	}
	used := func(pool string) int64 {
		all, err := ledger.View().Usage(t.Context(), "live", quota.DefaultAccount)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range all {
			if u.Pool.Name == pool {
				return u.Windows[0].Used
			}
		}
		return -1
	}
	if _, _, status := dial("/v1/plain"); status != http.StatusBadRequest || used("units") != 0 {
		t.Errorf("a method that does not upgrade: %d, %d units", status, used("units"))
	}
	conn, reader, status := dial("/v1/realtime")
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the handshake: %d", status)
	}
	if _, err := io.WriteString(conn, "frame\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "frame\n" {
		t.Errorf("the echo: %q %v", line, err)
	}
	if used("units") != 3 || used("sessions") != 1 {
		t.Errorf("%d units and %d slots while it is open", used("units"), used("sessions"))
	}
	if _, _, status := dial("/v1/realtime"); status != http.StatusTooManyRequests {
		t.Errorf("a second session: %d", status)
	}
	_ = conn.Close()
	until(t, "its slot is given back", func() bool { return used("sessions") == 0 })
	if used("units") != 3 {
		t.Errorf("%d units when it has ended", used("units"))
	}
}
