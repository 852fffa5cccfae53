package proxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// FuzzNoOpenProxy: whatever a program with a token sends, only hosts of the price book are
// called, by clean paths, and only listed methods get the key.
func FuzzNoOpenProxy(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET", "/api/v1/items?id=1", "localhost"},
		{"GET", "/api@other.test/v1/items", "localhost"},
		{"GET", "/api@evil.test/v1/items", "localhost"},
		{"GET", "http://evil.test/api/v1/items", "evil.test"},
		{"POST", "//evil.test/api/v1/items", "localhost"},
		{"GET", "/api/..%2f..%2fevil", "localhost:80"},
		{"GET", "/shop@x.shop.test/admin/items", "localhost"},
		{"GET", "/shop@evil.test#.shop.test/admin/items", "localhost"},
		{"GET", "/shop@evil.test%2f.shop.test/admin/items", "localhost"},
		{"GET", "/api/v1/items/%2e%2e/x", "localhost"},
		{"CONNECT", "evil.test:443", "evil.test:443"},
		{"OPTIONS", "*", "localhost"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	costs, err := book.Parse("costs.yaml", []byte(strings.NewReplacer("HOST", "api.test", "PORT", "2", "FORMAT", "problem").Replace(books)), nil)
	if err != nil {
		f.Fatal(err)
	}
	ledger, err := quota.New(costs, memstore.New(nil), nil)
	if err != nil {
		f.Fatal(err)
	}
	var sent *http.Request
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		sent = req
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	})
	w := tokensOf((&testing.T{}), Grant{Upstreams: []string{"api", "own", "shop"}, Accounts: []string{"*"}})
	h, err := New(ledger, w, &Options{
		Base: base, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Keys: map[string]meter.KeySource{"api": meter.Key(theKey), "shop@*": meter.Key(theKey)},
	})
	if err != nil {
		f.Fatal(err)
	}
	hosts := []string{"api.test", "localhost:1", "localhost:2", "other.test"}
	f.Fuzz(func(t *testing.T, verb, target, host string) {
		sent = nil
		u, err := url.ParseRequestURI(target)
		if err != nil || !slices.ContainsFunc([]string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT"}, func(v string) bool { return v == verb }) {
			t.Skip()
		}
		req := (&http.Request{
			Method: verb, URL: u, RequestURI: target, Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
			Header: http.Header{tokenHeader: {theToken}}, RemoteAddr: "127.0.0.1:1",
		}).WithContext(context.Background())
		h.ServeHTTP(httptest.NewRecorder(), req)
		if sent == nil {
			return
		}
		name := sent.URL.Host
		label, shop := strings.CutSuffix(name, ".shop.test")
		switch {
		case !slices.Contains(hosts, name) && !(shop && label != "" && !strings.Contains(label, ".")):
			t.Errorf("%s %s called %s", verb, target, name)
		case sent.Host != "" && sent.Host != name, sent.URL.Opaque != "", sent.URL.User != nil, sent.URL.Scheme != schemeOf(name):
			t.Errorf("%s %s was sent as %q to %q", verb, target, sent.URL, sent.Host)
		case !guard.Loopback(host):
			t.Errorf("the host %q was accepted", host)
		}
		path := sent.URL.EscapedPath()
		for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/") {
			if plain, err := url.PathUnescape(part); err != nil || plain == "." || plain == ".." || plain == "" && path != "/" || strings.ContainsAny(plain, "/\\") {
				t.Errorf("%s %s was sent to the path %q", verb, target, path)
			}
		}
		m := costs.Match(verb, name, path)
		if keyed := sent.Header.Get("X-Api-Key")+sent.Header.Get("X-Shop-Token") != ""; keyed && m.Route == nil {
			t.Errorf("%s %s got the key, and is no listed method", verb, target)
		}
	})
}
