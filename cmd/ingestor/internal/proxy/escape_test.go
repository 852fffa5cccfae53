package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// TestUploads: only the chunks of an upload that this proxy has begun are free.
func TestUploads(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	r := newRig(t, rigOptions{
		clock:  clock,
		change: func(o *Options) { o.UploadKey = []byte("the key") },
		grants: []Grant{{Upstreams: []string{"api"}}, {Upstreams: []string{"api"}}},
		serve: func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			switch id := req.URL.Query().Get("upload_id"); {
			case req.URL.Query().Has(uploadParam):
				t.Error("the upstream got a signature")
			case req.Header.Get("Content-Range") != "": // as Google's do
				w.Header().Set("Location", "http://"+req.Host+req.RequestURI)
				w.WriteHeader(http.StatusPermanentRedirect)
				return
			case id != "": // repeats it
				w.Header().Set("Location", "/v1/items?upload_id="+id)
				return
			}
			w.Header().Set("Location", "/v1/items?upload_id=7&uploadType=resumable")
		},
	})
	chunk := func(verb, path string, header ...string) answered {
		t.Helper()
		return r.send(r.request(verb, path, strings.NewReader("x"), append(header, "Content-Range", "bytes 0-0/1")...))
	}
	refused := func(verb, path string, header ...string) {
		t.Helper()
		if got := chunk(verb, path, header...); got.StatusCode != http.StatusNotFound || r.seen() != nil ||
			got.Header.Get("Headroom-Refused") != "upload" || !strings.Contains(got.body, "begin the upload again") {
			t.Errorf("%s %s: %s %s", verb, path, got.Status, got.body)
		}
	}
	refused("POST", "/api/v1/items?upload_id=7")
	refused("POST", "/api/v1/items?a=1&%75pload_id=7")
	repeated := r.send(r.request("POST", "/api/v1/items?upload_id=9", strings.NewReader("x")))
	if repeated.StatusCode != http.StatusOK {
		t.Fatalf("a charged call: %s", repeated.Status)
	}
	r.seen()
	refused("POST", "/api/v1/items?upload_id=9") // the upstream has only repeated it
	refused("POST", strings.TrimPrefix(repeated.Header.Get("Location"), r.server.URL))
	begun := r.send(r.request("POST", "/api/v1/items?uploadType=resumable", strings.NewReader("{}")))
	address := strings.TrimPrefix(begun.Header.Get("Location"), r.server.URL)
	spent := r.spent("etl")
	for _, verb := range []string{"PUT", "POST"} {
		if got := chunk(verb, address); got.StatusCode != http.StatusPermanentRedirect || got.Header.Get("Location") != r.server.URL+address || r.seen() == nil || r.spent("etl") != spent || spent == 0 {
			t.Errorf("a chunk at %s: %s %s, %d units", address, got.Status, got.body, r.spent("etl"))
		}
	}
	if got := chunk("PUT", "/api/v1/other?uploadType=resumable&upload_id=7"); got.StatusCode != http.StatusBadRequest || r.seen() != nil {
		t.Errorf("a chunk of no method: %s %s", got.Status, got.body)
	}
	at, query, _ := strings.Cut(address, "?")
	values, _ := url.ParseQuery(query)
	if got := chunk("PUT", at+"?"+values.Encode()); values.Encode() == query || got.StatusCode != http.StatusPermanentRedirect || r.seen() == nil {
		t.Errorf("a chunk at %s with its parameters in another order: %s %s", address, got.Status, got.body)
	}
	refused("PUT", address+"&upload_id=8")
	other := r.request("PUT", address, strings.NewReader("x"), "Content-Range", "bytes 0-0/1")
	other.Header.Set("X-Api-Key", strings.Repeat("1", 32))
	if got := r.send(other); got.StatusCode != http.StatusNotFound || r.seen() != nil {
		t.Errorf("another token: %s %s", got.Status, got.body)
	}
	if got := chunk("POST", address, "X-Http-Method-Override", "GET"); got.StatusCode == http.StatusOK || r.seen() != nil {
		t.Errorf("another verb: %s", got.Status)
	}
	refused("PUT", strings.Replace(address, uploadParam+"=", uploadParam+"=9", 1)) // a later end
	bare, _, _ := strings.Cut(address, "&"+uploadParam)
	refused("PUT", bare)
	restarted := func(key string) answered {
		t.Helper()
		h, err := New(r.ledger, *r.handler.tokens.Load(), &Options{Keys: keysOfAPI, UploadKey: []byte(key), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(h)
		defer server.Close()
		req := r.request("PUT", address, strings.NewReader("x"), "Content-Range", "bytes 0-0/1")
		req.URL.Host = strings.TrimPrefix(server.URL, "http://")
		return r.send(req)
	}
	spent = r.spent("etl")
	if got := restarted("the key"); got.StatusCode != http.StatusPermanentRedirect || r.seen() == nil || r.spent("etl") != spent {
		t.Errorf("after a restart: %s %s, %d units, want %d", got.Status, got.body, r.spent("etl"), spent)
	}
	if got := restarted("another key"); got.StatusCode != http.StatusNotFound || r.seen() != nil || r.spent("etl") != spent {
		t.Errorf("with another key: %s %s", got.Status, got.body)
	}
	clock.Advance(uploadLife + time.Second)
	refused("PUT", address)
}

// elsewhere is a rig whose calls end at a transport.
func elsewhere(t *testing.T, o rigOptions) (r *rig, seen func() *http.Request) {
	var last *http.Request
	o.change = func(o *Options) {
		o.Keys = map[string]meter.KeySource{"org": meter.Key("key-of-default"), "org@team": meter.Key("key-of-team"), "billed": meter.Key("key-of-default"), "billed@team": meter.Key("key-of-team"), "watched": meter.Key("key-of-watched")}
		o.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
			last = req
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: req}, nil
		})
	}
	return newRig(t, o), func() *http.Request {
		req := last
		last = nil
		return req
	}
}

// TestAccountBehindConnection: the account that the token is checked for is charged, also if
// Connection names its header.
func TestAccountBehindConnection(t *testing.T) {
	r, seen := elsewhere(t, rigOptions{grants: []Grant{{Upstreams: []string{"org"}, Accounts: []string{"team"}}}})
	got := r.call("GET", "/org/v1/items", "Headroom-Token", theToken, "X-Org", "team", "Connection", "X-Org")
	if sent := seen(); got.StatusCode != http.StatusOK || sent == nil || sent.Header.Get("X-Org-Key") != "key-of-team" || sent.Header.Get("X-Org") != "team" {
		t.Errorf("%s %s: %v", got.Status, got.body, sent)
	}
	if got := r.call("GET", "/org/v1/items", "Headroom-Token", theToken, "Connection", "X-Org"); got.StatusCode != http.StatusForbidden || seen() != nil {
		t.Errorf("the default account: %s", got.Status)
	}
}

// TestAccountOfARemovedHeader: so it is if the header that names it is not sent on.
func TestAccountOfARemovedHeader(t *testing.T) {
	r, seen := elsewhere(t, rigOptions{grants: []Grant{{Upstreams: []string{"billed"}, Accounts: []string{"team"}}}})
	got := r.call("GET", "/billed/v1/items", "Headroom-Token", theToken, "X-Goog-User-Project", "team")
	if sent := seen(); got.StatusCode != http.StatusOK || sent == nil || sent.Header.Get("X-Billed-Key") != "key-of-team" {
		t.Errorf("%s %s: %v", got.Status, got.body, sent)
	}
}

// TestOtherCallsWithTheKey: a listed call does not become another one, also if it is only
// counted.
func TestOtherCallsWithTheKey(t *testing.T) {
	r, seen := elsewhere(t, rigOptions{grants: []Grant{{Upstreams: []string{"watched"}}}})
	for _, header := range [][]string{{"X-Http-Method-Override", "DELETE"}, {"X-Http-Method", "post, delete"}, {"X-Method-Override", "PUT"}, {"X_HTTP_Method_Override", "PUT"}, {"X-Original-URL", "/v1/other"}, {"X-Rewrite-URL", "/v1/other"}, {"X_Rewrite_URL", "/"}, {"Content-Type", "Multipart/Mixed; boundary=x"}} {
		if got := r.call("POST", "/watched/v1/all/batch", append(header, "Headroom-Token", theToken)...); got.StatusCode == http.StatusOK || seen() != nil {
			t.Errorf("%q: %s", header, got.Status)
		}
	}
	if got := r.call("POST", "/watched/v1/items", "Headroom-Token", theToken, "X-Http-Method-Override", "post"); got.StatusCode != http.StatusOK || seen() == nil {
		t.Errorf("the same verb: %s %s", got.Status, got.body)
	}
}

// TestTokenStaysHere: the token is not sent on from where another upstream has its key.
func TestTokenStaysHere(t *testing.T) {
	r := newRig(t, rigOptions{grants: []Grant{{Upstreams: []string{"api"}}}})
	for _, header := range [][]string{{"X-Shop-Token", theToken}, {"X-Org-Key", "Bearer " + theToken}} {
		req := r.request("GET", "/v1/items?token="+theToken, nil, header...)
		req.Header.Del("X-Api-Key")
		got := r.send(req)
		sent := r.seen()
		if got.StatusCode != http.StatusOK || sent == nil || sent.Header.Get(header[0]) != "" || sent.URL.RawQuery != "" {
			t.Errorf("%s: %s %s, the upstream got %v", header[0], got.Status, got.body, sent)
		}
	}
	// Only so many texts are compared with tokens. Another credential does not crowd out the token.
	for range 20 {
		got := r.call("GET", "/v1/items", "X-Shop-Token", theToken, "X-Api-Key", "theirs", "Authorization", "Basic dXNlcjpwYXNz")
		if got.StatusCode != http.StatusOK {
			t.Fatalf("beside another credential: %s %s", got.Status, got.body)
		}
	}
	r.seen()
	if got := r.call("GET", "/v1/items", "Upgrade", "websocket", "Connection", "Upgrade"); got.StatusCode != http.StatusBadRequest || r.seen() != nil {
		t.Errorf("a WebSocket without an upstream: %s", got.Status)
	}
}

// TestRefusedBody: a program that is refused does not keep its connection with a body that
// never comes.
func TestRefusedBody(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.handler.linger = 50 * time.Millisecond
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, "POST /api/v1/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewReader(conn)
	resp, err := http.ReadResponse(read, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusUnauthorized || !resp.Close {
		t.Errorf("%s %v, closes %v", resp.Status, err, resp.Close)
	}
	if _, err := read.ReadByte(); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
}

func TestFoldersWithParameters(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, path := range []string{"/api/v1/..;/items", "/api/v1/.;a=1/items", "/api/v1/..%3bx/items"} {
		if got := r.call("GET", path); got.StatusCode != http.StatusBadRequest || r.seen() != nil {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
}
