package proxy

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// TestAddresses: an address of the upstream in an answer becomes one of the proxy.
func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		header string
		value  string // HOST is the upstream
		want   string // PROXY is the proxy; "": 502
	}{
		{"a redirect to a path", 302, "Location", "/v1/items/2?a=1", "PROXY/api/v1/items/2?a=1"},
		{"a relative redirect", 302, "Location", "items/2", "PROXY/api/v1/items/2"},
		{"a redirect to the same host", 307, "Location", "http://HOST/v1/items/2#x", "PROXY/api/v1/items/2#x"},
		{"a redirect to another host of the upstream", 302, "Location", "https://other.test/v1/items/2", "PROXY/api@other.test/v1/items/2"},
		{"the same with its port", 302, "Location", "https://other.test:443/v1/items", "PROXY/api@other.test/v1/items"},
		{"a redirect that the book allows", 302, "Location", "https://files.test/x?sig=1", "https://files.test/x?sig=1"},
		{"a redirect that it allows, in plain text", 302, "Location", "http://files.test/x", ""},
		{"a redirect elsewhere", 302, "Location", "https://evil.test/x", ""},
		{"a redirect to nothing", 302, "Location", "http://[::1", ""},
		{"a redirect with the key", 302, "Location", "/v1/items?key=x", ""},
		{"an upload", 200, "Location", "http://HOST/v1/items?upload_id=7", "PROXY/api/v1/items?upload_id=7"},
		{"an upload of Google", 200, "X-Goog-Upload-Url", "http://HOST/v1/items?upload_id=7", "PROXY/api/v1/items?upload_id=7"},
		{"another page", 200, "Link", `<http://HOST/v1/items?page=2>; rel="next", <https://docs.test/x>; rel="help"`, `<PROXY/api/v1/items?page=2>; rel="next", <https://docs.test/x>; rel="help"`},
		{"something elsewhere", 201, "Location", "https://docs.test/x", "https://docs.test/x"},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set(test.header, strings.ReplaceAll(test.value, "HOST", req.Host))
				w.WriteHeader(test.status)
			}})
			got := r.call("GET", "/api/v1/items")
			want := strings.ReplaceAll(test.want, "PROXY", r.server.URL)
			if got.Header.Get(test.header) != want || want == "" && got.StatusCode != http.StatusBadGateway || want != "" && got.StatusCode != test.status {
				t.Errorf("%s %q, want %q\n%s", got.Status, got.Header.Get(test.header), want, got.body)
			}
		})
	}
}

// TestJiraAttachments: Jira redirects to the content of an attachment, on a host that the book names.
func TestJiraAttachments(t *testing.T) {
	for to, want := range map[string]int{"https://api.media.atlassian.com/file/f/binary?token=t": http.StatusSeeOther, "https://media.evil.example/f": http.StatusBadGateway} {
		proxy := builtinRig(t, "jira", func(*http.Request) *http.Response {
			resp := answerOf("", "Location", to)
			resp.StatusCode = http.StatusSeeOther
			return resp
		})
		status, header, text := get(t, "GET", proxy+"/jira/rest/api/3/attachment/content/1")
		if status != want || want == http.StatusSeeOther && header.Get("Location") != to {
			t.Errorf("a redirect to %s: %d %q %s", to, status, header, text)
		}
	}
}

// TestAddressesInBodies: the fields that the book names hold addresses of the proxy. All else stays.
func TestAddressesInBodies(t *testing.T) {
	const batch, other = `{"results_url": "https://api.anthropic.com/v1/messages/batches/1/results?a=1"`, `"results_url":"https://api.anthropic.com/x"`
	for name, test := range map[string]struct{ book, path, kind, body, want string }{
		"a batch":         {"anthropic", "/v1/messages/batches/1", "application/json; charset=utf-8", batch + `}`, `{"results_url": "PROXY/anthropic/v1/messages/batches/1/results?a=1"}`},
		"a list":          {"anthropic", "/v1/messages/batches", "application/json", `{"data":[` + batch + `}]}`, `{"data":[{"results_url": "PROXY/anthropic/v1/messages/batches/1/results?a=1"}]}`},
		"escaped slashes": {"slack", "/api/x", "application/json", `{"upload_url":"https:\/\/files.slack.com\/upload\/v1\/a"}`, `{"upload_url":"PROXY/slack@files.slack.com/upload/v1/a"}`},
		"another host":    {"anthropic", "/v1/files", "application/json", `{"results_url":"https://evil.example/x"}`, ""},
		"no address yet":  {"anthropic", "/v1/files", "application/json", `{"results_url":null}`, ""},
		"text in text":    {"anthropic", "/v1/files", "application/json", `{"x":` + strconv.Quote(other) + `}`, ""},
		"another field":   {"anthropic", "/v1/files", "application/json", `{"url":"https://api.anthropic.com/x"}`, ""},
		"another kind":    {"anthropic", "/v1/files/1/content", "text/plain", `{` + other + `}`, ""},
		"another book":    {"openai", "/v1/files", "application/json", `{"results_url":"https://api.openai.com/v1/x"}`, ""},
		"a long body":     {"anthropic", "/v1/files", "application/json", `{` + other + `,"x":"` + strings.Repeat("x", mostAddressed) + `"}`, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			proxy := builtinRig(t, test.book, func(*http.Request) *http.Response {
				return answerOf(test.body, "Content-Type", test.kind, "Content-Length", strconv.Itoa(len(test.body)))
			})
			want := strings.ReplaceAll(cmp.Or(test.want, test.body), "PROXY", proxy)
			if status, _, text := get(t, "GET", proxy+"/"+test.book+test.path); status != http.StatusOK || text != want {
				t.Errorf("%d %.200s, want %.200s", status, text, want)
			}
		})
	}
}

// TestUpstreamAddress: a path has an address where the price book has a host for it. A host
// that is named after the account needs one.
func TestUpstreamAddress(t *testing.T) {
	shop := newRig(t, rigOptions{}).ledger.Book().Upstreams["shop"]
	for _, test := range []struct{ account, path, want string }{
		{"mine", "/admin/items", "https://mine.shop.test/admin/items"},
		{"", "/admin/items", ""},
		{"mine.evil", "/admin/items", ""},
		{"mine", "/other", ""},
	} {
		if got := Address(shop, test.account, test.path); got != test.want {
			t.Errorf("%q %s: %q, want %q", test.account, test.path, got, test.want)
		}
	}
}

// TestAnswerHeaders: what is about the site of the upstream stays there.
func TestAnswerHeaders(t *testing.T) {
	theirs := map[string]string{
		"Set-Cookie": "a=1", "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true", "Alt-Svc": `h3=":443"`,
		"Strict-Transport-Security": "max-age=1", "Cross-Origin-Resource-Policy": "cross-origin", "Content-Security-Policy": "default-src *",
		"Clear-Site-Data": `"*"`, "Headroom-Refused": "refused", "Connection": "X-Hop", "X-Hop": "1", "Keep-Alive": "1",
	}
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range theirs {
			w.Header().Set(name, value)
		}
		w.Header().Set("X-Ratelimit-Remaining", "5")
	}})
	got := r.call("GET", "/api/v1/items")
	for name, value := range theirs {
		if got.Header.Get(name) == value {
			t.Errorf("the program got %s: %s", name, value)
		}
	}
	if got.StatusCode != 200 || got.Header.Get("X-Ratelimit-Remaining") != "5" || len(got.Header.Values("Content-Security-Policy")) != 1 {
		t.Errorf("%s %q", got.Status, got.Header)
	}
}

// TestRequestHeaders: the transport asks for gzip and reads it. A range of compressed bytes would be
// of no use. A program that does not name itself stays without a name.
func TestRequestHeaders(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, test := range []struct{ name, value, encoding, agent string }{
		{"User-Agent", "", "gzip", ""},
		{"User-Agent", "tests/1", "gzip", "tests/1"},
		{"Range", "bytes=0-1", "identity", "Go-http-client/1.1"},
	} {
		got := r.call("GET", "/api/v1/items", test.name, test.value, "Accept-Encoding", "br")
		sent := r.seen()
		if got.StatusCode != http.StatusOK || sent.Header.Get("Accept-Encoding") != test.encoding || sent.UserAgent() != test.agent {
			t.Errorf("%s %q: %s, the upstream got %q", test.name, test.value, got.Status, sent.Header)
		}
	}
}

// TestUpstreamRefusalsAreTold: a refusal of the upstream shuts the pool for others, so it is told
// with the time at which the pool opens. An answer and a missing right are told as a call that went well.
func TestUpstreamRefusalsAreTold(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC))
	status := 0
	var why error
	var until time.Time
	told := 0
	r := newRig(t, rigOptions{
		clock:  clock,
		change: func(o *Options) { o.Told = func(err error, at time.Time) { why, until, told = err, at, told+1 } },
		serve: func(w http.ResponseWriter, _ *http.Request) {
			if status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "90")
			}
			w.WriteHeader(status)
		},
	})
	for i, test := range []struct {
		status int
		shut   bool
	}{{http.StatusOK, false}, {http.StatusForbidden, false}, {http.StatusTooManyRequests, true}} {
		status = test.status
		if got := r.call("GET", "/api/v1/items"); got.StatusCode != status || told != i+1 {
			t.Errorf("%s, %d calls are told of", got.Status, told)
		}
		if test.shut != errors.Is(why, quota.ErrBlocked) || !test.shut && why != nil || test.shut != until.Equal(clock.Now().Add(90*time.Second)) {
			t.Errorf("%d is told as %v until %s", status, why, until)
		}
	}
}

// TestUnderscores: a header that some servers read as another one stays here like that one.
func TestUnderscores(t *testing.T) {
	r, seen := elsewhere(t, rigOptions{grants: []Grant{{Upstreams: []string{"org"}}}})
	names := []string{"X_Org_Key", "X_Org", "X_Forwarded_For", "Headroom_Job", "X_API_Key", "Proxy_Authorization"}
	header := []string{"Headroom-Token", theToken, "X_Other", "stays"}
	for _, name := range names {
		header = append(header, name, "theirs")
	}
	got := r.call("GET", "/org/v1/items", header...)
	sent := seen()
	if got.StatusCode != http.StatusOK || sent == nil || sent.Header.Get("X_Other") != "stays" {
		t.Fatalf("%s %s: %v", got.Status, got.body, sent)
	}
	for _, name := range names {
		if sent.Header.Get(name) != "" {
			t.Errorf("the upstream got %s", name)
		}
	}
}
