package meter_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// A key leaves this machine over TLS only.
func TestTheKeyTravelsOverTLSOnly(t *testing.T) {
	proxy := func(to string) func(*http.Request) (*url.URL, error) {
		return func(*http.Request) (*url.URL, error) { return url.Parse(to) }
	}
	const local = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com, localhost, 127.0.0.1, 127.9.9.9, "[::1]", 10.0.0.1, localhost.example.com]
    api_key: {header: X-Api-Key}
    pools: {units: {quota: 100, windows: [{per: 24h}]}}
    methods: {items.list: {route: GET /v1/items, cost: 1}}
`
	for _, c := range []struct {
		name, url string
		proxy     func(*http.Request) (*url.URL, error)
		header    http.Header // with which the caller brings a key of its own
		refused   bool
	}{
		{"to a public host", "http://api.example.com/v1/items", nil, nil, true},
		{"to a private address", "http://10.0.0.1/v1/items", nil, nil, true},
		{"to a host that only looks like this machine", "http://localhost.example.com/v1/items", nil, nil, true},
		{"to a public host, through a proxy", "http://api.example.com/v1/items", proxy("http://10.1.1.1:3128"), nil, true},
		{"to a public host, the caller's own", "http://api.example.com/v1/items", nil, http.Header{"x-api-key": {secret}}, true},
		{"to a public host, in Authorization", "http://api.example.com/v1/items", nil, http.Header{"Authorization": {"Bearer " + secret}}, true},
		{"to this machine, through a proxy elsewhere", "http://127.0.0.1/v1/items", proxy("http://10.1.1.1:3128"), nil, true},
		{"to this machine, through a proxy on it", "http://127.0.0.1/v1/items", proxy("http://[::1]:3128"), nil, false},
		{"to this machine", "http://127.0.0.1/v1/items", nil, nil, false},
		{"to this machine, by another address", "http://127.9.9.9/v1/items", nil, nil, false},
		{"to this machine, by its name", "http://LocalHost./v1/items", nil, nil, false},
		{"to this machine, in IPv6", "http://[::1]/v1/items", nil, nil, false},
		{"over TLS", "https://api.example.com/v1/items", nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := 0
			r := newRig(t, func(http.ResponseWriter, *http.Request) { sent++ }, nil)
			r.ledger = newLedger(t, local, r.clock)
			r.base.Proxy = c.proxy
			var keys map[string]meter.KeySource
			if c.header == nil {
				keys = map[string]meter.KeySource{"api": meter.Key(secret)}
			}
			r.meter(&meter.Options{Keys: keys})
			req := get(t, c.url)
			if c.header != nil {
				req.Header = c.header
			}
			_, _, err := r.send(req)
			var no *meter.CredentialError
			if errors.As(err, &no) != c.refused || !c.refused && err != nil || c.refused && sent > 0 {
				t.Errorf("error %v, sent %d times", err, sent)
			}
			if c.refused {
				r.charged(0)
			}
		})
	}
	t.Run("without a key plain HTTP stays possible", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.get("http://api.example.com/v1/items")
		r.charged(1)
	})
}

// spellings are the ways in which an answer can repeat a key.
func spellings() map[string]string {
	b64 := func(before string) string {
		return base64.StdEncoding.EncodeToString([]byte(before + secret + "after"))
	}
	all := map[string]string{
		"as it is": secret, "in capitals": strings.ToUpper(secret), "in small letters": strings.ToLower(secret),
		"in base64": b64(""), "in base64 behind one": b64("x"), "in base64 behind two": b64("xy"), "in base64 for URLs": base64.URLEncoding.EncodeToString([]byte("??>" + secret)),
		"in hexadecimal": hex.EncodeToString([]byte(secret)), "in part escaped": "%41%49" + secret[2:],
	}
	var escaped strings.Builder
	for _, c := range []byte(secret) {
		fmt.Fprintf(&escaped, "%%%02x", c)
	}
	all["escaped"] = escaped.String()
	all["escaped twice"] = strings.ReplaceAll(escaped.String(), "%", "%25")
	return all
}

// rawServer answers each request with bytes, and closes the connection.
func rawServer(t *testing.T, answer string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					io.WriteString(conn, answer)
				}
			}()
		}
	}()
	return l
}

// answers are ways for KEY to come into an error, a log or a URL.
var answers = map[string]string{
	"Content-Length":          "HTTP/1.1 200 OK\r\nContent-Length: KEY\r\n\r\n",
	"two Content-Lengths":     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: KEY\r\n\r\n",
	"Transfer-Encoding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: KEY\r\n\r\n",
	"status line":             "HTTP/1.1 KEY\r\n\r\n",
	"status code":             "HTTP/1.1 2KEY OK\r\n\r\n",
	"protocol":                "KEY 200 OK\r\n\r\n",
	"no HTTP":                 "KEY\r\n\r\n",
	"line without colon":      "HTTP/1.1 200 OK\r\nKEY\r\n\r\n",
	"name of a header":        "HTTP/1.1 200 OK\r\nA KEY: x\r\n\r\n",
	"continued line":          "HTTP/1.1 200 OK\r\n KEY: x\r\n\r\n",
	"chunk's length":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nKEY\r\nx\r\n0\r\n\r\n",
	"chunk's extension":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;KEY\r\nx\r\n0\r\n\r\n",
	"trailer":                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: KEY\r\n\r\n1\r\nx\r\n0\r\nKEY\r\n\r\n",
	"name of a trailer":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length, KEY\r\n\r\n0\r\n\r\n",
	"value of a trailer":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX KEY: \x01KEY\r\n\r\n",
	"gzip":                    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nKEY",
	"cookie":                  "HTTP/1.1 200 OK\r\nSet-Cookie: KEY=KEY; =KEY\r\nContent-Length: 2\r\n\r\n{}",
	"link":                    "HTTP/1.1 200 OK\r\nLink: <https://api.example.com/v1/items?page=KEY>; rel=\"next\"\r\nContent-Length: 2\r\n\r\n{}",
	"refresh":                 "HTTP/1.1 200 OK\r\nRefresh: 0; url=/v1/items?a=KEY\r\nContent-Length: 2\r\n\r\n{}",
	"location of something":   "HTTP/1.1 201 Created\r\nLocation: /v1/items/KEY\r\nContent-Length: 2\r\n\r\n{}",
	"redirect, parameter":     "HTTP/1.1 302 Found\r\nLocation: /v1/items?token=KEY\r\nContent-Length: 0\r\n\r\n",
	"redirect, path":          "HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/items/KEY\r\nContent-Length: 0\r\n\r\n",
	"redirect, fragment":      "HTTP/1.1 308 Permanent Redirect\r\nLocation: /v1/items#KEY\r\nContent-Length: 0\r\n\r\n",
	"redirect, user":          "HTTP/1.1 302 Found\r\nLocation: https://KEY@api.example.com/v1/items\r\nContent-Length: 0\r\n\r\n",
	"redirect, host":          "HTTP/1.1 302 Found\r\nLocation: https://KEY.example.com/v1/items\r\nContent-Length: 0\r\n\r\n",
	"redirect, elsewhere":     "HTTP/1.1 302 Found\r\nLocation: https://elsewhere.example.com/?a=KEY\r\nContent-Length: 0\r\n\r\n",
	"redirect, scheme":        "HTTP/1.1 302 Found\r\nLocation: KEY://api.example.com/\r\nContent-Length: 0\r\n\r\n",
	"redirect, unparsable":    "HTTP/1.1 302 Found\r\nLocation: https://[KEY/%zz\r\nContent-Length: 0\r\n\r\n",
	"redirect, its own name":  "HTTP/1.1 302 Found\r\nLocation: /v1/items?key=KEY\r\nContent-Length: 0\r\n\r\n",
	"redirect, other's key":   "HTTP/1.1 302 Found\r\nLocation: /v1/items?key=AIzaOther\r\nContent-Length: 0\r\n\r\n",
	"early hint":              "HTTP/1.1 103 Early Hints\r\nLink: KEY\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: KEY\r\n\r\n",
	"switch of protocols":     "HTTP/1.1 101 KEY\r\nUpgrade: KEY\r\nConnection: Upgrade\r\n\r\nKEY",
	"refusal":                 "HTTP/1.1 429 KEY\r\nRetry-After: KEY\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"message\": \"KEY\"}  ",
	"refusal, status":         "HTTP/1.1 429 too fast KEY\r\nContent-Length: 0\r\n\r\n",
	"cut short":               "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nKE",
	"other reset":             "HTTP/1.1 403 Forbidden\r\nX-Ratelimit-Remaining: 0\r\nX-Ratelimit-Reset: KEY\r\nContent-Length: 0\r\n\r\n",
	"credential error":        "HTTP/1.1 401 KEY\r\nWww-Authenticate: KEY\r\nContent-Length: 0\r\n\r\n",
	"first of two locations":  "HTTP/1.1 302 Found\r\nLocation: /v1/items?a=KEY\r\nLocation: /v1/items\r\nContent-Length: 0\r\n\r\n",
	"second of two locations": "HTTP/1.1 302 Found\r\nLocation: /v1/nothing\r\nLocation: /v1/items?a=KEY\r\nContent-Length: 0\r\n\r\n",
}

// However an answer repeats the key, it is in no error, no log and no URL that a client
// would follow.
func TestAnswersThatRepeatTheKey(t *testing.T) {
	for name, answer := range answers {
		for spelling, key := range spellings() {
			t.Run(name+"/"+spelling, func(t *testing.T) {
				out := converse(t, rawServer(t, strings.ReplaceAll(answer, "KEY", key)))
				for _, k := range []string{key, secret, "AIzaOther"} {
					if strings.Contains(strings.ToLower(out), strings.ToLower(k)) {
						t.Errorf("%s is in:\n%s", k, out)
					}
				}
			})
		}
	}
}

// converse makes a call with the key, and returns all that a program could log of it.
func converse(t *testing.T, l net.Listener) string {
	t.Helper()
	var out bytes.Buffer
	var mu sync.Mutex
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&out, format+"\n", args...)
	}
	r := newRig(t, nil, nil)
	r.ledger = watched(t, r.ledger.Book(), r.clock, func(e quota.Event) { note("event %+v", e) })
	r.dial(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	})
	r.meter(&meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key(secret)}})
	req := get(t, items)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaderField: func(name string, values []string) { note("header %s %v", name, values) },
		PutIdleConn:      func(err error) { note("idle %v %#v", err, err) },
		WroteRequest:     func(w httptrace.WroteRequestInfo) { note("wrote %v", w.Err) },
	}))
	resp, err := r.client.Do(req)
	note("error %v %+v %#v", err, err, err)
	for e := err; e != nil; e = errors.Unwrap(e) {
		note("error %v %+v %#v", e, e, e)
	}
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		note("error of the body %v %+v %#v, %v", err, err, err, resp.Body.Close())
		for _, name := range []string{"Location", "Content-Location", "Link", "Refresh"} {
			note("%s: %v", name, resp.Header[name])
		}
		location, err := resp.Location()
		note("location %v %v, asked %v", location, err, resp.Request.URL)
	}
	note("log %s", r.log)
	note("usage %+v", r.usage("api/units"))
	mu.Lock()
	defer mu.Unlock()
	return out.String()
}

// So do the last words of an HTTP/2 server.
func TestHTTP2ServersThatRepeatTheKey(t *testing.T) {
	for spelling, key := range spellings() {
		for name, answer := range map[string]func(f *http2.Framer, e *hpack.Encoder, header *bytes.Buffer){
			"debug data": func(f *http2.Framer, _ *hpack.Encoder, _ *bytes.Buffer) {
				f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte(key))
			},
			"name of a header": func(f *http2.Framer, e *hpack.Encoder, header *bytes.Buffer) {
				e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				e.WriteField(hpack.HeaderField{Name: "A " + key, Value: "x"})
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: header.Bytes()})
			},
			"status": func(f *http2.Framer, e *hpack.Encoder, header *bytes.Buffer) {
				e.WriteField(hpack.HeaderField{Name: ":status", Value: key})
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: header.Bytes()})
			},
		} {
			t.Run(name+"/"+spelling, func(t *testing.T) {
				r := newRig(t, nil, nil)
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					far, err := l.Accept()
					if err != nil {
						return
					}
					defer far.Close()
					io.ReadFull(far, make([]byte, len(http2.ClientPreface)))
					f := http2.NewFramer(far, far)
					f.WriteSettings()
					for {
						frame, err := f.ReadFrame()
						if err != nil {
							return
						}
						if _, is := frame.(*http2.HeadersFrame); is {
							var header bytes.Buffer
							answer(f, hpack.NewEncoder(&header), &header)
							return
						}
					}
				}()
				near, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer near.Close()
				conn, err := (&http2.Transport{}).NewClientConn(near) //nolint:staticcheck // http.Transport dials for itself
				if err != nil {
					t.Fatal(err)
				}
				r.meter(&meter.Options{Base: conn, Keys: map[string]meter.KeySource{"api": meter.Key(secret)}})
				_, _, err = r.send(get(t, items))
				if out := fmt.Sprintf("%v %+v %#v %s", err, err, err, r.log); err == nil || strings.Contains(strings.ToLower(out), strings.ToLower(key)) {
					t.Errorf("error %s", out)
				}
			})
		}
	}
}

// An error that replaces another one matches the same sentinels.
func TestACleanErrorIsWhatItWas(t *testing.T) {
	r := newRig(t, nil, nil)
	r.meter(&meter.Options{
		Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: secret, Err: context.DeadlineExceeded}
		}),
		Keys: map[string]meter.KeySource{"api": meter.Key(secret)},
	})
	err := r.bare(get(t, items))
	var timeout net.Error
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	if is, ok := err.(interface{ Timeout() bool }); !ok || !is.Timeout() {
		t.Errorf("%v is no timeout", err)
	}
}
