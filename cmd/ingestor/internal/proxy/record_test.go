package proxy

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// private are texts that name a person, or that somebody must not learn.
var private = []string{
	"alicesmith", "wonderland", "alice@example.com", "s3cr3t-47119274", "YWxpY2U6d29uZGVy", "4111111111111111",
	"0b9e1c3a-5f0c-4a58-9c5e-5a1d2b3c4d5e", "Zürich", theToken, theKey, "key-of-shops",
}

// newRecorded returns a rig whose calls are recorded, and how to read the lines.
func newRecorded(t *testing.T, serve http.HandlerFunc) (*rig, func() (string, []record.Exchange)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls.jsonl")
	var kept *record.Recorder
	var base roundTripper
	r := newRig(t, rigOptions{serve: serve, grants: []Grant{{Upstreams: []string{"api", "watched", "shop"}, Accounts: []string{"default", "alicesmith"}}}, change: func(o *Options) {
		var err error
		kept, err = record.Open(file, 1<<20, []string{"v1", "all", "items"}, quota.SystemClock{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		o.Record, o.Base = kept, roundTripper(func(req *http.Request) (*http.Response, error) { return base(req) })
		o.Keys["watched"] = meter.Key(theKey)
	}})
	base = func(req *http.Request) (*http.Response, error) { // each host is the upstream's server
		out := req.Clone(req.Context())
		out.URL.Scheme, out.URL.Host = "http", strings.TrimPrefix(r.upstream.URL, "http://")
		return http.DefaultTransport.RoundTrip(out)
	}
	return r, func() (string, []record.Exchange) {
		t.Helper()
		r.server.Close()
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []record.Exchange
		for line := range strings.Lines(string(text)) {
			var x record.Exchange
			if err := json.Unmarshal([]byte(line), &x); err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		return string(text), all
	}
}

func TestARecordingHasNoSecret(t *testing.T) {
	secrets := strings.Join(private, " ")
	quoted, err := json.Marshal(secrets)
	if err != nil {
		t.Fatal(err)
	}
	r, read := newRecorded(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		h := w.Header()
		for _, name := range []string{"RateLimit", "X-RateLimit-Resource", "X-Usage", "Retry-After", "X-Quota-User", "X-Other", "Server"} {
			h.Set(name, url.PathEscape(secrets))
			h.Add(name, secrets)
			for _, secret := range private {
				h.Add(name, `"`+secret+`";r=5;t=9;pk=:`+"YWxpY2U6d29uZGVy"+":")
			}
		}
		for i, secret := range private {
			h.Set("X-Quota-"+string(rune('a'+i)), `{"`+secret+`": 7}`)
		}
		h.Set("X-RateLimit-Remaining", "41")
		h.Set("Set-Cookie", "session=s3cr3t-47119274")
		h.Set("Content-Type", "application/json")
		h.Set("Trailer", "X-RateLimit-Reset")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"usage": {"total_tokens": 812, "alicesmith": 5}, "error": {"code": `+string(quoted)+`, "type": "alicesmith"}, `+string(quoted)+`: `+string(quoted)+`}`)
		h.Set("X-RateLimit-Reset", secrets)
	})
	for _, secret := range private {
		part := url.PathEscape(secret)
		if strings.ContainsAny(secret, "/") {
			continue // the proxy takes no such path
		}
		for _, path := range []string{"/watched/v1/all/" + part, "/watched/v1/all/users/" + part + "/orders?name=" + url.QueryEscape(secret) + "&" + url.QueryEscape(secret) + "=1&limit=25&count=47119&per_page=" + url.QueryEscape(secret)} {
			req := r.request("POST", path, strings.NewReader(`{"`+secret+`": "`+secret+`", "model": "`+secret+`"}`), "X-Watched-Key", theToken, "Cookie", "a="+secret, "Authorization", "Bearer "+theToken)
			req.Header.Del("X-Api-Key")
			req.Header["X-Note"] = []string{secret}
			req.Trailer = http.Header{"X-End": {secret}}
			req.ContentLength = -1
			if got := r.send(req); got.StatusCode != 429 || got.Header.Get(meter.RefusedHeader) != "" {
				t.Fatalf("%s: %d %s", path, got.StatusCode, got.body)
			}
		}
	}
	text, all := read()
	if len(all) < len(private) {
		t.Fatalf("%d calls are recorded", len(all))
	}
	for _, secret := range append(private, "YWxpY2U", "alice", "smith", "s3cr3t", "of the tests", "47119274") {
		for _, form := range []string{secret, url.PathEscape(secret), url.QueryEscape(secret)} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
				t.Errorf("the recording has %q", form)
			}
		}
	}
	for i := range all {
		x := &all[i]
		if path := x.Path; path != "/v1/all/{id}" && path != "/v1/all/users/{id}/orders" {
			t.Errorf("path %s", path)
		}
		if x.Host != "watched.test" || x.Verb != "POST" || x.Key != "X-Watched-Key" || x.Status != 429 || x.Header["X-Ratelimit-Remaining"] != "41" || x.Body["usage.total_tokens"] != "812" {
			t.Errorf("what a draft needs is missing: %+v", x)
		}
		if want := strings.HasSuffix(x.Path, "orders"); want != (x.Sizes["limit"] == "25") || len(x.Sizes) > 1 {
			t.Errorf("of the query of %s, the recording has %v", x.Path, x.Sizes)
		}
	}
}

func TestARecordingHasNoNameOfAnAccount(t *testing.T) {
	r, read := newRecorded(t, nil)
	if got := r.call("GET", "/shop@alicesmith.shop.test/admin/items?cursor=alicesmith", "X-Shop-Token", theToken, "Headroom-Account", "alicesmith"); got.StatusCode != 200 {
		t.Fatal(got.StatusCode, got.body)
	}
	text, all := read()
	if strings.Contains(text, "alice") || len(all) != 1 || all[0].Host != "*.shop.test" || all[0].Path != "/admin/items" {
		t.Errorf("recorded: %s", text)
	}
}

// TestSegments: a recording may keep what the price book names of a path, and not what it leaves open.
func TestSegments(t *testing.T) {
	all := Segments(newRig(t, rigOptions{}).ledger.Book())
	slices.Sort(all)
	if want := []string{"", "admin", "all", "api", "few", "items", "v1"}; !slices.Equal(slices.Compact(all), want) {
		t.Errorf("%q, want %q", all, want)
	}
}

// What the proxy itself answers is no call of the upstream.
func TestOnlyCallsThatWereSentAreRecorded(t *testing.T) {
	r, read := newRecorded(t, nil)
	if got := r.call("GET", "/api/v1/nothing/of/this"); got.StatusCode != 400 {
		t.Fatal(got.StatusCode, got.body)
	}
	if text, all := read(); len(all) != 0 {
		t.Errorf("recorded: %s", text)
	}
}

// BenchmarkRecording compares calls that are recorded with others.
func BenchmarkRecording(b *testing.B) {
	for _, record := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "recorded"}[record], func(b *testing.B) { benchmarkRecording(b, record) })
	}
}

func benchmarkRecording(b *testing.B, recorded bool) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			w.Header().Set(name, "4999")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items": [`+strings.Repeat(`{"id": 12345, "name": "an item"},`, 20)+`{}]}`)
	}))
	defer upstream.Close()
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    hosts: ["`+strings.TrimPrefix(upstream.URL, "http://")+`"]
    api_key: {header: X-Api-Key}
    pools: {units: {quota: 1000000000, windows: [{per: day}]}}
    methods: {get: {route: "GET /v1/items/{id}", pool: units, cost: 1}}
`), nil)
	if err != nil {
		b.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		b.Fatal(err)
	}
	token, err := access.New("etl", theToken)
	if err != nil {
		b.Fatal(err)
	}
	options := &Options{Keys: map[string]meter.KeySource{"api": meter.Key(theKey)}, Log: slog.New(slog.DiscardHandler)}
	if recorded {
		if options.Record, err = record.Open(filepath.Join(b.TempDir(), "calls.jsonl"), 1<<30, nil, quota.SystemClock{}, options.Log); err != nil {
			b.Fatal(err)
		}
		defer options.Record.Close()
	}
	handler, err := New(ledger, []*access.Token{token.Bound(&Grant{Upstreams: []string{"api"}})}, options)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequestWithContext(b.Context(), "GET", server.URL+"/api/v1/items/42", nil)
			req.Header.Set("X-Api-Key", theToken)
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != 200 {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}
