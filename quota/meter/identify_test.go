package meter_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// However a request spells its host, it is metered if it arrives at a metered one.
func TestSpellingsOfAHost(t *testing.T) {
	for _, c := range []struct {
		url, host string
		charged   int64
	}{
		{"http://api.example.com/v1/items", "", 1},
		{"http://API.Example.COM/v1/items", "", 1},
		{"http://api.example.com./v1/items", "", 1},
		{"http://api.example.com:80/v1/items", "", 1},
		{"http://api.example.com:8080/v1/items", "", 1}, // listed without a port: every one
		{"http://api.example.org:8443/v1/items", "", 1},
		{"http://api.example.org/v1/items", "", 0},
		{"http://api.example.org:08443/v1/items", "", 1}, // which net/http dials
		{"http://usual.example.com/v1/items", "", 1},     // listed with the port that this is sent to
		{"http://usual.example.com:/v1/items", "", 1},
		{"http://usual.example.com.:80/v1/items", "", 1},
		{"http://usual.example.com:81/v1/items", "", 0},
		{"http://127.0.0.1/v1/items", "usual.example.com", 1},
		{"http://ａｐｉ.example.com/v1/items", "", 1}, // as net/http resolves it
		{"http://api.example。com/v1/items", "", 1},
		{"http://ａｐｉ.example.com:8080/v1/items", "", 1},
		{"http://äpi.example.com/v1/items", "", 0},
		{"https://user:word@api.example.com/v1/items", "", 1},
		{"http://127.0.0.1/v1/items", "api.example.com", 1}, // servers go by the Host header
		{"http://127.0.0.1/v1/items", "ＡＰＩ.example.com", 1},
		{"http://127.0.0.1/v1/items", "", 0},
		{"http://api.example.com/v1/items", "127.0.0.1", 1},
		{"http://xapi.example.com/v1/items", "", 0},
		{"http://api.example.com.evil.net/v1/items", "", 0},
	} {
		r := newRig(t, nil, nil)
		req, err := http.NewRequest("GET", c.url, nil)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if c.host != "" {
			req.Host = c.host
		}
		if _, _, err := r.send(req); err != nil {
			t.Errorf("%s: %v", c.url, err)
		}
		if got := r.used("api/units"); got != c.charged {
			t.Errorf("%s with host %q: %d units charged, want %d", c.url, c.host, got, c.charged)
		}
	}
	t.Run("a proxy that is asked for one", func(t *testing.T) {
		r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }, nil)
		for _, opaque := range []string{"//api.example.com/v1/items", "http://api.example.com/v1/items"} {
			req, _ := http.NewRequest("GET", "http://127.0.0.1/", nil)
			req.URL.Opaque = opaque
			if _, _, err := r.send(req); !errors.Is(err, quota.ErrUnpriced) {
				t.Errorf("%s: error %v", opaque, err)
			}
		}
	})
	t.Run("two upstreams at once", func(t *testing.T) {
		r := newRig(t, nil, nil)
		req, _ := http.NewRequest("GET", "http://api.example.com/v1/items", nil)
		req.Host = "other.example.com"
		if _, _, err := r.send(req); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("error %v, want bad input", err)
		}
		r.charged(0)
	})
}

// A call without a price is refused, and the error says how to add one.
func TestUnpriced(t *testing.T) {
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	for _, c := range []struct {
		verb, url string
		header    http.Header
		hint      string
	}{
		{"GET", "http://api.example.com/v1/things", nil, `add this to the methods of api in costs.yaml, with what it costs: things.get: {route: "GET /v1/things", pool: units, cost: 1}`},
		{"GET", "http://api.example.com/", nil, `: root.get: {route: "GET /", pool: units, cost: 1}`},
		{"GET", "http://api.example.com", nil, `: root.get: {route: "GET /", pool: units, cost: 1}`},
		{"HEAD", "http://api.example.com/v1/items", nil, `: items.head: {route: "HEAD /v1/items", pool: units, cost: 1}`},
		{"GET", "http://api.example.com/v1/items:burn", nil, `: items.burn.get: {route: "GET /v1/items:burn", pool: units, cost: 1}`},
		{"GET", "http://api.example.com/v1/a%20b/parts", nil, `: parts.get: {route: "GET /v1/{id}/parts", pool: units, cost: 1}`},
		{"GET", "http://api.example.com//v1/items", nil, "did you mean GET /v1/items, which is items.list? send exactly that"},
		{"GET", "http://api.example.com/v1/items/", nil, "did you mean GET /v1/items, which"},
		{"GET", "http://api.example.com/v1/%69tems", nil, "did you mean GET /v1/items, which"},
		{"GET", "http://api.example.com/v1/x/../search", nil, "did you mean GET /v1/search, which is search.list"},
		{"GET", "http://api.example.com/v1//things", nil, `: things.get: {route: "GET /v1/{rest...}", pool: units, cost: 1}`},
		{"GET", "http://api.example.com/v1/a%2Fb", nil, `: v1.get: {route: "GET /v1/{rest...}", pool: units, cost: 1}`},
		{"GET", "http://api.example.com/a%2Fb", nil, `add this to api in costs.yaml, with what it costs: default: {GET: {pool: units, cost: 1}}`},
		{"GET", "http://api.example.com/v1/a%00b", nil, "no route of a price book is like it"},
		{"get", "http://api.example.com/v1/items", nil, "no route of a price book is like it"},
		{"POST", "http://api.example.com/batch", nil, "send them one by one"},
		{"POST", "http://api.example.com/batch/api/v1", nil, "send them one by one"},
		{"POST", "http://api.example.com/v1/many", header("Content-Type", "Multipart/Mixed; boundary=x"), "send them one by one"},
		{"POST", "http://other.example.com/batch", nil, "send them one by one"}, // its upstream admits what has no price, but not this
		{"GET", "http://api.example.com/v1/items", header("X-Http-Method-Override", "POST"), `makes another verb of it ("POST")`},
		{"POST", "http://api.example.com/v1/items", header("X-Http-Method-Override", "GET"), `makes another verb of it ("GET")`},
		{"POST", "http://api.example.com/v1/items", header("x-http-method-override", "delete"), `makes another verb of it ("DELETE")`},
		{"POST", "http://api.example.com/v1/items", header("X-Http-Method", "PATCH"), `makes another verb of it ("PATCH")`},
		{"POST", "http://api.example.com/v1/items", header("X-Method-Override", "PUT"), `makes another verb of it ("PUT")`},
		{"POST", "http://api.example.com/v1/items", http.Header{"X_HTTP_Method_Override": {"PUT"}}, `makes another verb of it ("PUT")`},
		{"POST", "http://api.example.com/v1/items", http.Header{"x_http-method": {"PUT"}}, `makes another verb of it ("PUT")`},
		{"GET", "http://api.example.com/v1/items", header("X-Original-URL", "/v1/search"), "the header X-Original-URL makes another path of it"},
		{"GET", "http://api.example.com/v1/items", http.Header{"X_Rewrite_Url": {"/v1/search"}}, "the header X_Rewrite_Url makes another path of it"},
		{"POST", "http://api.example.com/v1/items?upload_id=1", http.Header{"X-Http-Method-Override": {"GET"}, "Content-Range": {"bytes 0-1/2"}}, `makes another verb of it ("GET")`},
		{"POST", "http://api.example.com/batch?upload_id=1", header("Content-Range", "bytes 0-1/2"), "send them one by one"},
	} {
		r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Errorf("%s %s was sent", c.verb, c.url) }, nil)
		req, err := http.NewRequest(c.verb, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != nil {
			req.Header = c.header
		}
		_, _, err = r.send(req)
		var unpriced *quota.UnpricedError
		if !errors.Is(err, quota.ErrUnpriced) || !errors.As(err, &unpriced) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s %s: error\n%v\nwant one with\n%s", c.verb, c.url, err, c.hint)
		}
		r.charged(0)
	}
	t.Run("the second of two headers", func(t *testing.T) {
		r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }, nil)
		for _, h := range []http.Header{
			{"X-Http-Method-Override": {"GET", "DELETE"}},
			{"X-Http-Method-Override": {"GET"}, "X-Http-Method": {"DELETE"}, "X-Method-Override": {"GET"}},
		} {
			for range 10 { // they come in any order
				req := get(t, items)
				req.Header = h
				if _, _, err := r.send(req); !errors.Is(err, quota.ErrUnpriced) {
					t.Errorf("%v: error %v", h, err)
				}
			}
		}
		r.charged(0)
	})
	t.Run("a header that changes nothing is ignored", func(t *testing.T) {
		r := newRig(t, nil, nil)
		req, _ := http.NewRequest("GET", items, nil)
		req.Header.Set("X-HTTP-Method-Override", "get")
		if _, _, err := r.send(req); err != nil {
			t.Error(err)
		}
		r.charged(1)
	})
	t.Run("an upstream may admit it", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.get("http://other.example.com/nothing")
		if got := r.used("other/units"); got != 0 {
			t.Errorf("%d units charged", got)
		}
	})
	t.Run("a path that is sent as it is", func(t *testing.T) {
		r := newRig(t, nil, nil)
		req, _ := http.NewRequest("GET", items, nil)
		req.URL.Opaque = "/v1/things" // goes before the path
		if _, _, err := r.send(req); !errors.Is(err, quota.ErrUnpriced) {
			t.Errorf("error %v", err)
		}
	})
}

// The line of the message, put where it says, prices the call.
func TestTheLineToAddIsRight(t *testing.T) {
	for _, path := range []string{
		"/v1/things", "/", "/v1/a%20b/parts", "/v1/items:burn", "/v1/items/7:burn", "/v2/items", "/v9", "/-", "/v1/" + strings.Repeat("x", 100),
		"/v1//things", "/v1/things/", "/v1/a%2Fb", "/v1/a%252Fb/c", "/a%2Fb", "//x", "/v1/items/a%20b:burn", "/v1/%C3%BC", "/v1/x;y=1/z", "/v1/a=b@c/$d",
		"/v1/%7Bid%7D", "/v1/%22", "/null", "/v1/items/1/2/3", "/%2e%2e/x", "/v1/a/%2e", "/v1/'", "/1.5", "/v1/a:b:c", "/things/",
	} {
		for _, verb := range []string{"GET", "PATCH", "PROPFIND", "HEAD", "NO"} {
			if path == "/v1/items/7:burn" && verb == "GET" {
				continue
			}
			r := newRig(t, nil, nil)
			_, _, err := r.do(t.Context(), verb, "http://api.example.com"+path, "")
			var unpriced *quota.UnpricedError
			if !errors.As(err, &unpriced) {
				t.Errorf("%s %s: %v", verb, path, err)
				continue
			}
			found := regexp.MustCompile(`add this to (.*) in costs.yaml, with what it costs: (.*)$`).FindStringSubmatch(unpriced.Hint)
			if found == nil {
				t.Errorf("%s %s: no line in %q", verb, path, unpriced.Hint)
				continue
			}
			where := map[string]string{"the methods of api": "    methods:\n", "api": "  api:\n"}[found[1]]
			indent := strings.Repeat(" ", len(where)-len(strings.TrimLeft(where, " "))+2)
			text := strings.Replace(prices, where, where+indent+found[2]+"\n", 1)
			r.ledger = newLedger(t, text, r.clock)
			r.meter(nil)
			if status, _, err := r.do(t.Context(), verb, "http://api.example.com"+path, ""); err != nil || status != http.StatusOK {
				t.Errorf("%s %s with %s: %d, %v", verb, path, found[2], status, err)
			}
			r.charged(1)
		}
	}
}

func TestRedirects(t *testing.T) {
	var calls []string
	to := ""
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		calls = append(calls, req.Host+req.URL.Path)
		if to != "" && req.URL.Query().Get("from") == "" {
			http.Redirect(w, req, to, http.StatusTemporaryRedirect)
		}
	}, &meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key("secret")}})
	for _, c := range []struct {
		url, to string
		charged int64
		calls   int
		refused bool
	}{
		{items, "/v1/items/1?from=1", 2, 2, false}, // to itself: another call
		{items, "https://API.example.com:443/v1/items/1?from=1", 2, 2, false},
		{items, "https://elsewhere.example.com/?from=1", 1, 1, true},
		{items, "https://api.example.com:81/v1/items?from=1", 1, 1, true},
		{items, "https://api.example.org:8443/v1/items?from=1", 1, 1, true}, // its own, but another
		{"http://elsewhere.example.com/", "https://api.example.com/v1/items?from=1", 1, 2, false},
		{"http://elsewhere.example.com/", "http://third.example.com/?from=1", 0, 2, false},
	} {
		calls, to = nil, c.to
		before := r.used("api/units")
		_, _, err := r.do(t.Context(), "GET", c.url, "")
		var redirect *meter.RedirectError
		if errors.As(err, &redirect) != c.refused || !c.refused && err != nil {
			t.Errorf("%s to %s: %v", c.url, c.to, err)
		}
		if got := r.used("api/units") - before; got != c.charged || len(calls) != c.calls {
			t.Errorf("%s to %s: %d units charged, %q called, want %d and %d", c.url, c.to, got, calls, c.charged, c.calls)
		}
	}
	t.Run("from https to http", func(t *testing.T) {
		r := newRig(t, nil, nil)
		from, _ := http.NewRequest("GET", "https://api.example.com/v1/items", nil)
		req, _ := http.NewRequest("GET", "http://api.example.com/v1/items", nil)
		req.Response = &http.Response{Request: from} // as net/http notes it
		err := r.bare(req)
		var redirect *meter.RedirectError
		if !errors.As(err, &redirect) || redirect.From != "https://api.example.com" || redirect.To != "http://api.example.com" {
			t.Errorf("error %v", err)
		}
	})
}

// FuzzRoute: nothing that a request can say leaves to a metered host unreserved.
func FuzzRoute(f *testing.F) {
	for _, s := range []string{"/v1/items", "//v1/items", "/v1/items/..", "/v1/items/%2e%2e/x", "/v1/items?upload_id=1", "/batch", "/v1/items;x", "/v1/items#a", "*", ""} {
		f.Add("GET", "api.example.com", "", s, "", "", "")
		f.Add("POST", "API.example.com:80", "api.example.com", s, "GET", "bytes 0-1/2", "multipart/mixed")
		f.Add("PUT", "ａｐｉ.example.com.", "x", s, "", "bytes */1", "")
	}
	priced, err := book.Parse("costs.yaml", []byte(prices), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, verb, host, named, target, override, span, kind string) {
		u, err := url.Parse(target)
		if err != nil {
			return
		}
		u.Scheme, u.Host = "http", host
		req := &http.Request{Method: verb, URL: u, Host: named, Header: http.Header{}}
		for name, value := range map[string]string{"X-HTTP-Method-Override": override, "Content-Range": span, "Content-Type": kind} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		var sent *http.Request
		clock := quota.NewSimClock(noon)
		l := newLedger(t, prices, clock)
		m := newTransport(t, l, &meter.Options{Logger: discard, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, nil
		})})
		resp, err := m.RoundTrip(req)
		if err == nil {
			defer resp.Body.Close()
		}
		if (err == nil) != (sent != nil) || (err == nil) != (resp != nil) {
			t.Fatalf("error %v, sent %v, answer %v", err, sent != nil, resp != nil)
		}
		if sent == nil {
			return
		}
		spent := int64(0)
		usage, err := l.View().Usage(t.Context(), "api", "default")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range usage {
			spent += p.Windows[0].Used
		}
		metered := priced.Match("GET", host, "/").Upstream != nil && priced.Match("GET", host, "/").Upstream.Name == "api"
		chunk := span != "" && (verb == "POST" || verb == "PUT") && u.Query().Has("upload_id") && (strings.TrimSpace(override) == "" || strings.EqualFold(strings.TrimSpace(override), verb))
		if metered && spent == 0 && !chunk {
			t.Errorf("%s %s%s left for nothing", verb, host, u)
		}
	})
}
