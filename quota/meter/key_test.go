package meter_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

const secret = "AIzaSecretOfTheTests"

// Several accounts side by side: each has its own key and its own pools.
func TestKeysOfAccounts(t *testing.T) {
	var got atomic.Value
	r := newRig(t, func(_ http.ResponseWriter, req *http.Request) { got.Store(req.Header.Values("X-Api-Key")) }, nil)
	asked := 0
	r.meter(&meter.Options{Keys: map[string]meter.KeySource{
		"api": meter.Key("first"),
		"api@staging": func(context.Context) (string, error) {
			asked++
			return fmt.Sprint("second-", asked), nil
		},
	}})
	staging := meter.WithAccount(t.Context(), "staging")
	for _, c := range []struct {
		ctx context.Context
		url string
		key string
	}{
		{t.Context(), items, "[first]"},
		{staging, items, "[second-1]"},
		{staging, items, "[second-2]"}, // it is asked for each call
		{t.Context(), "http://other.example.com/things", "[]"},
		{t.Context(), "http://example.net/", "[]"},
	} {
		if _, _, err := r.do(c.ctx, "GET", c.url, ""); err != nil {
			t.Error(err)
		}
		if fmt.Sprint(got.Load()) != c.key {
			t.Errorf("%s got key %v, want %s", c.url, got.Load(), c.key)
		}
	}
	r.charged(1)
	if used := r.used("api@staging/units"); used != 2 {
		t.Errorf("%d units of staging charged, want 2", used)
	}
	t.Run("a key of the caller's own makes way", func(t *testing.T) {
		req, _ := http.NewRequest("GET", items, nil)
		req.Header.Set("X-Api-Key", "theirs")
		if _, _, err := r.send(req); err != nil || fmt.Sprint(got.Load()) != "[first]" {
			t.Errorf("key %v, %v", got.Load(), err)
		}
	})
	t.Run("in any spelling", func(t *testing.T) {
		req, _ := http.NewRequest("GET", items, nil)
		req.Header["x-api-key"] = []string{"theirs"}
		if _, _, err := r.send(req); err != nil || fmt.Sprint(got.Load()) != "[first]" || len(req.Header) != 1 {
			t.Errorf("key %v, %v; the caller's %v", got.Load(), err, req.Header)
		}
	})
	t.Run("without keys it stays", func(t *testing.T) {
		r.meter(nil)
		req, _ := http.NewRequest("GET", items, nil)
		req.Header.Set("X-Api-Key", "theirs")
		if _, _, err := r.send(req); err != nil || fmt.Sprint(got.Load()) != "[theirs]" {
			t.Errorf("key %v, %v", got.Load(), err)
		}
	})
}

func TestNoKey(t *testing.T) {
	failed := errors.New("the vault is shut")
	for _, c := range []struct {
		name string
		keys map[string]meter.KeySource
		want string
	}{
		{"of this account", map[string]meter.KeySource{"api@staging": meter.Key(secret)}, `key of api: there is no key; add "api" to meter.Options.Keys`},
		{"in its source", map[string]meter.KeySource{"api": meter.Key("")}, "key of api: its source has none"},
		{"that fits in a header", map[string]meter.KeySource{"api": meter.Key(secret + "\n")}, "not a single line"},
		{"because its source failed", map[string]meter.KeySource{"api": func(context.Context) (string, error) { return "", failed }}, "its source failed: the vault is shut"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }, &meter.Options{Keys: c.keys})
			_, _, err := r.do(t.Context(), "GET", items, "")
			var e *meter.CredentialError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if c.name == "because its source failed" && !errors.Is(err, failed) {
				t.Error("the source's error is lost")
			}
			r.charged(0)
		})
	}
	t.Run("for an upstream that has no header for it", func(t *testing.T) {
		r := newRig(t, nil, &meter.Options{Keys: map[string]meter.KeySource{"other": meter.Key(secret)}})
		_, _, err := r.do(t.Context(), "GET", "http://other.example.com/things", "")
		if !errors.Is(err, meter.ErrCredential) || !strings.Contains(err.Error(), "add api_key") {
			t.Errorf("error %v", err)
		}
	})
}

// A request that only says whose it is does not take the key elsewhere.
func TestTheKeyGoesToItsHostsOnly(t *testing.T) {
	r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }, &meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key(secret)}})
	for _, c := range []struct{ opaque, host string }{
		{"", "api.example.com"},
		{"//api.example.com/v1/items", ""},
		{"http://api.example.com/v1/items", ""},
	} {
		req := get(t, "http://elsewhere.example.com/v1/items")
		req.URL.Opaque, req.Host = c.opaque, c.host
		_, _, err := r.send(req)
		if err == nil || c.opaque == "" && (!errors.Is(err, meter.ErrCredential) || !strings.Contains(err.Error(), "add that one to hosts")) {
			t.Errorf("%+v: error %v", c, err)
		}
		r.charged(0)
	}
}

// A key in the URL is refused before anything is charged, whoever put it there.
func TestKeyInTheURL(t *testing.T) {
	for _, query := range []string{"key=x", "a=b&key=x", "key", "%6bey=x", "k%65y=x&a", "a;b&key="} {
		r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Errorf("%s was sent", query) }, nil)
		err := r.bare(get(t, items+"?"+query))
		if !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "leave it out of the URL") {
			t.Errorf("%s: %v", query, err)
		}
		r.charged(0)
	}
	t.Run("that is sent as it is", func(t *testing.T) {
		r := newRig(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }, nil)
		req := get(t, items)
		req.URL.Opaque = "/v1/items?key=" + secret
		err := r.bare(req)
		if !errors.Is(err, quota.ErrBadInput) || strings.Contains(err.Error()+r.log.String(), secret) {
			t.Errorf("error %v, log %s", err, r.log)
		}
	})
	for _, query := range []string{"", "keys=x", "a=key", "Key=x", "a=b%26key=x", "%zz=1"} {
		r := newRig(t, nil, nil)
		if err := r.bare(get(t, items+"?"+query)); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		r.charged(1)
	}
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// The key appears only in the header of the request, whatever fails. It never appears in
// an error, a log, a span of the request, answer or connection, an event for the ledger's
// observer, or the reason of a block.
func TestTheKeyStaysSecret(t *testing.T) {
	var sent atomic.Int64
	var handle http.HandlerFunc
	handler := func(w http.ResponseWriter, req *http.Request) {
		if req.Host == "api.example.com" && req.Header.Get("X-Api-Key") != secret {
			t.Error("a call came without the key")
		}
		if req.Host != "api.example.com" && req.Header.Get("X-Api-Key") != "" {
			t.Errorf("%s got the key", req.Host)
		}
		sent.Add(1)
		handle(w, req)
	}
	fail := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			echo := req.Header.Get("X-Api-Key") // an upstream that repeats the key
			w.Header().Set("X-Ratelimit-Reset", echo)
			w.Header().Set("Retry-After", echo)
			w.WriteHeader(status)
			fmt.Fprintf(w, body, echo)
		}
	}
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		change func(r *rig, req *http.Request) *http.Request
		fails  bool
	}{
		{"an answer", fail(200, "%s"), nil, false},
		{"a fault of the server", fail(500, "%s"), nil, false},
		{"a quota that is used up", fail(403, `{"reason": "dailyLimit", "message": "%s"}`), nil, false},
		{"a burst", fail(429, "%s"), nil, false},
		{"a text", fail(403, "too fast, %s"), nil, false},
		{"a credential error", fail(401, "%s is not valid"), nil, true},
		{"a reset", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}, nil, true},
		{"nonsense instead of HTTP", func(w http.ResponseWriter, req *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			io.WriteString(conn, "nonsense\r\n")
			conn.Close()
		}, nil, true},
		{"a timeout", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, func(r *rig, req *http.Request) *http.Request {
			r.client.Timeout = 50 * time.Millisecond
			return req
		}, true},
		{"a redirect elsewhere", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "http://elsewhere.example.com/", http.StatusFound)
		}, nil, true},
		{"redirects without end", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/v1/items", http.StatusFound)
		}, nil, true},
		{"no connection", nil, func(r *rig, req *http.Request) *http.Request {
			r.server.Close()
			return req
		}, true},
		{"no price", nil, func(_ *rig, req *http.Request) *http.Request {
			req.URL.Path = "/v1/nothing"
			return req
		}, true},
		{"a refusal", nil, func(r *rig, req *http.Request) *http.Request {
			r.ledger.Admin().Adjust(req.Context(), quota.Pool{Upstream: "api", Account: "default", Name: "units"}, 100, "spent")
			return req
		}, true},
		{"no such class", nil, func(_ *rig, req *http.Request) *http.Request {
			return req.WithContext(meter.WithClass(req.Context(), "none"))
		}, true},
		{"another verb", nil, func(_ *rig, req *http.Request) *http.Request {
			req.Header.Set("X-HTTP-Method-Override", "PUT")
			return req
		}, true},
		{"a malformed header", nil, func(_ *rig, req *http.Request) *http.Request {
			req.Header["Bad Name"] = []string{"x"}
			return req
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			var mu sync.Mutex
			note := func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintf(&out, format+"\n", args...)
			}
			handle = c.handle
			r := newRig(t, handler, nil)
			b := r.ledger.Book()
			r.ledger = watched(t, b, r.clock, func(e quota.Event) { note("event %+v", e) })
			r.meter(&meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key(secret)}})
			metered := r.client.Transport
			r.client.Transport = roundTrip(func(req *http.Request) (*http.Response, error) { // a span
				resp, err := metered.RoundTrip(req)
				note("request %+v %v", req.Header, req.URL)
				if err == nil {
					note("asked %+v %v", resp.Request.Header, resp.Request.URL)
				}
				note("error %v %+v %#v", err, err, err)
				return resp, err
			})
			req := get(t, items)
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				WroteHeaderField: func(name string, values []string) { note("header %s %v", name, values) },
			}))
			if c.change != nil {
				req = c.change(r, req)
			}
			_, _, err := r.send(req)
			if (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			note("error %v %+v %#v", err, err, err)
			note("log %s", r.log)
			note("usage %+v", r.usage("api/units"))
			note("transport %+v %#v", metered, metered)
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(out.String(), secret) {
				t.Errorf("the key is in:\n%s", out.String())
			}
			if !strings.Contains(out.String(), "event") && err == nil {
				t.Error("nothing was noted")
			}
		})
	}
	if sent.Load() == 0 {
		t.Error("no call was sent")
	}
}

func watched(t *testing.T, b *quota.Book, clock quota.Clock, watch func(quota.Event)) *quota.Ledger {
	t.Helper()
	l, err := quota.New(b, newStore(clock), &quota.Options{Clock: clock, Observer: quota.ObserverFunc(watch)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Over HTTP/2 too each call is one, and the caller's trace does not see the key.
func TestHTTP2(t *testing.T) {
	r := newRig(t, nil, nil)
	var key atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		key.Store(req.Proto + " " + req.Header.Get("X-Api-Key"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	r.server.Close()
	r.server = server
	r.base.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	r.base.ForceAttemptHTTP2, r.base.DialTLSContext = true, nil
	r.meter(&meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key(secret)}})
	var fields strings.Builder
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteHeaderField: func(name string, values []string) { fmt.Fprintln(&fields, name, values) },
	})
	for range 3 {
		if _, _, err := r.do(ctx, "GET", "https://api.example.com/v1/items", ""); err != nil {
			t.Fatal(err)
		}
	}
	if want := "HTTP/2.0 " + secret; key.Load() != want {
		t.Errorf("the server got %q, want %q", key.Load(), want)
	}
	r.charged(3)
	if got := fields.String(); strings.Contains(got, secret) || !strings.Contains(got, "x-api-key [(hidden)]") {
		t.Errorf("the trace saw\n%s", got)
	}
	server.Close()
	r.base.CloseIdleConnections()
	if _, _, err := r.do(ctx, "GET", "https://api.example.com/v1/items", ""); err == nil {
		t.Error("there is a server")
	}
	r.charged(3)
}
