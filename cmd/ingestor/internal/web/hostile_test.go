package web_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
)

// hostile returns malicious requests, each as sent over the wire. They seed the fuzzing.
func hostile() [][]byte {
	const host = " HTTP/1.1\r\nHost: localhost\r\n"
	get := func(path string, headers ...string) string {
		return "GET " + path + host + strings.Join(headers, "\r\n") + "\r\n\r\n"
	}
	post := func(path, body string, headers ...string) string {
		return "POST " + path + host + strings.Join(append(headers, ""), "\r\n") + "\r\n" + body
	}
	all := []string{
		"", "\x00", "\r\n\r\n\r\n", "GET", "GET /", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // the hello of TLS
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"TRACE /api/v1/quota" + host + "\r\n",
		"G\x7fT /api/v1/quota" + host + "\r\n",
		"GET http://evil.example/api/v1/quota HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/v1/quota HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
		"GET /api/v1/quota HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n",
		"GET /api/v1/quota HTTP/1.0\r\n\r\n",
		get("/api/v1/quota"), get("/api/v1/quota", "X-Forwarded-For: 203.0.113.9"),
		get("/api/v1/quota", "X-Forwarded-For: "+strings.Repeat("1.1.1.1,", 1500)),
		get("/api/v1/quota", "X-Forwarded-For: \xff\xfe", "Forwarded: for=\"[::1]\";for=,,,", "X-Real-Ip: ::1"),
		get("/api/v1/quota", "Authorization: Bearer \xff", "Cookie: "+strings.Repeat("a=b;", 3000)),
		get("/api/v1/quota", "If-None-Match: "+strings.Repeat("*,", 3000), "Range: bytes=0-0,1-1,-1"),
		get("/api/v1/quota", "Connection: upgrade", "Upgrade: h2c", "HTTP2-Settings: AAAA"),
		get("/api/v1/quota", "X: "+strings.Repeat("x", 20<<10)),
		get("/" + strings.Repeat("a", 30<<10)),
		get("/" + strings.Repeat("../", 2000) + "etc/passwd"), get("/%2e%2e/%2e%2e/api/v1/quota"), get("//api//v1//quota"), get("/api/v1/quota/"),
		get("/api/v1/quota\x00"), get("/api/v1/%71uota"), get("/API/V1/QUOTA"), get("/api/v1/quota;a=b"), get("/api/v1/quota%3fa=b"), get("/api/v1/quota#a"),
		get("/api/v1/videos/"), get("/api/v1/videos/%00"), get("/api/v1/videos/%ff%fe"), get("/api/v1/videos/" + strings.Repeat("%2e", 3000)),
		get("/api/v1/videos/'%20OR%201=1--"), get("/api/v1/videos/a%2fb"), get("/api/v1/videos/a/b"),
		get("/api/v1/trending?region=%00%00"), get("/api/v1/trending?region=%ff%ff"), get("/api/v1/trending?region=US&category=%d9%a1"),
		get("/api/v1/search?q=%ff%fe%00"), get("/api/v1/search?q=%22"), get("/api/v1/search?q=*"), get("/api/v1/search?q=%22%22%22a*%22*"),
		get("/api/v1/search?q=NEAR(a%20b)%20AND%20NOT%20OR%20title:x%20^y"), get("/api/v1/search?q=" + strings.Repeat("a+", 7000)),
		get("/api/v1/search?q=" + strings.Repeat("%e6%9d%b1", 1500)), get("/api/v1/search?q=%f0%9f%87%a9%f0%9f%87%aa%e2%80%8d%cc%81"),
		get("/api/v1/search?q=a&cursor=____________"), get("/api/v1/search?q=a&cursor=" + strings.Repeat("AQ", 2000)),
		get("/api/v1/search?q=a&since=9999-12-31"), get("/api/v1/search?q=a&since=-9999-12-31"), get("/api/v1/search?q=a&since=0000-01-01"), get("/api/v1/search?q=a&since=2562047h"),
		get("/api/v1/search?q=a&since=99999d"), get("/api/v1/search?" + strings.Repeat("q=a&", 3000)), get("/api/v1/search?%zz=%"),
		get("/api/v1/runs?before=9223372036854775807&limit=100"), get("/api/v1/runs?job=%00"), get("/api/v1/runs?job=%ff&limit=0x10"),
		get("/?by=%ff"), get("/search?q=%ff%fe%00&region=%ff&cursor=%ff"), get("/search?q=" + strings.Repeat("a+", 7000)), get("/regions/%ff%00?category=%ff"),
		get("/static/..%2fdashboard.css"),
		get("/api/v1/quota") + get("/api/v1/regions") + get("/nothing"),
		get("/"), get("/?a=%zz"), get("/search"), get("/search?q=%ff%00%22*&region=%ff&since=x&limit=-1&cursor=%zz"), get("/search?q=<script>"),
		get("/search?" + strings.Repeat("q=a;", 3000)), get("/regions/%ff%00"), get("/regions/US?category=%ff"), get("/regions/..%2f"), get("/regions/"),
		get("/static/"), get("/static/..%2fpages.go"), get("/static/%00"), get("/metrics?a=b"), get("/livez?a=b"), get("/readyz", "X-Forwarded-For: x"),
	}
	const token = "Authorization: Bearer " + theToken
	for _, body := range []string{
		"", "{", "null", "[]", `"x"`, "\xff\xfe", `{"pool": "\ud800"}`, `{"pool": 1}`, `{"pool": {}, "pool": {}}`, `{"method": "videos.list"} {}`,
		`{"units": 1e400}`, `{"units": 99999999999999999999}`, `{"pool": "youtube/units", "units": -1}`, `{"pool": "\u0000/\u0000/\u0000"}`,
		`{"method": "videos.list", "id": "` + strings.Repeat("x", 60<<10) + `"}`, `{"token": "\u0000"}`, `{"token": "` + strings.Repeat("A", 5000) + `"}`,
		`{"family": "client", "key": "` + strings.Repeat("\xc3", 3000) + `"}`, strings.Repeat(`{"a":`, 12000), `{"charges": {"` + strings.Repeat("a", 9000) + `": 1}}`,
	} {
		length := "Content-Length: " + strconv.Itoa(len(body))
		all = append(all, post("/v1/reserve", body, token, length), post("/v1/settle", body, token, length), post("/v1/release", body, token, length))
	}
	for _, path := range []string{"/api/v1/quota", "/v1/reserve", "/nothing"} {
		all = append(all, post(path, "{", "Content-Length: 1"), post(path, "{", token, "Content-Length: 1"),
			post(path, `{"pool": "`+"\xff\xfe", "Content-Length: 12"),
			post(path, "", "Content-Length: -1"), post(path, "", "Content-Length: 99999999999999999999"),
			post(path, strings.Repeat("[", 100<<10), token, "Content-Length: 102400"),
			post(path, strings.Repeat(" ", 1<<20), "Content-Length: 1099511627776"),
			post(path, "ffffffffffffffff\r\n{", token, "Transfer-Encoding: chunked"), post(path, "zz\r\n", token, "Transfer-Encoding: chunked"),
			post(path, "0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 5"), post(path, "", "Transfer-Encoding: gzip"),
			post(path, "{}", "Content-Length: 2", "Content-Length: 3"), post(path, "{}", "Expect: nonsense", "Content-Length: 2"))
	}
	raw := make([][]byte, len(all))
	for i, text := range all {
		raw[i] = []byte(text)
	}
	return raw
}

// last follows each request, so that the server does not wait for more of it.
const last = "\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

// forTest returns the rig for a subtest.
func (r *rig) forTest(t testing.TB) *rig {
	under, c := *r.Rig, *r
	under.TB, c.Rig = t, &under
	return &c
}

// exchange sends bytes, and returns the answers to them.
func (r *rig) exchange(s *serving, raw []byte) (all []answer) {
	r.Helper()
	c := r.connect(s)
	defer func() { _ = c.Close() }()
	go func() { // the server may answer, and close, before it has all
		_, _ = c.Write(raw)
		_, _ = io.WriteString(c, last)
	}()
	said, err := io.ReadAll(c)
	if isTimeout(err) {
		r.Errorf("%.200q: it is not answered, and not cut", raw)
	}
	for b := bufio.NewReader(bytes.NewReader(said)); ; {
		a, err := http.ReadResponse(b, nil)
		if err != nil {
			return all
		}
		text, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		all = append(all, answer{a, string(text)})
		if err != nil { // the server has cut it; or it answered HEAD, which this reader cannot know
			return all
		}
	}
}

// unguarded is a price book without limits in reach, not even for guesses.
const unguarded = `families:
  client: {quota: 1000000, windows: [{per: 1m, algorithm: counter}]}
  client_guesses: {quota: 1000000, windows: [{per: 1m}]}
`

// proof is a server without limits, and one whose limits are used up.
type proof struct {
	open, shut     *rig
	atOpen, atShut *serving
}

func newProof(t testing.TB) *proof {
	short := web.Timeouts{Header: 100 * time.Millisecond, Request: 100 * time.Millisecond, Idle: 100 * time.Millisecond}
	p := &proof{open: newLimitedRig(t, &web.Options{Timeouts: short}, unguarded), shut: newLimitedRig(t, &web.Options{Timeouts: short}, "")}
	p.open.token(theToken)
	p.open.Run("trending")
	p.shut.Run("trending")
	p.shut.exhaust("/api/v1/quota")
	p.atOpen, p.atShut = p.open.serve(), p.shut.serve()
	return p
}

// holds fails if a request causes an internal error or passes the limit. net/http itself
// answers unknown requests with 501 and 505, in plain text.
func (p *proof) holds(t testing.TB, raw []byte) {
	for _, a := range p.open.forTest(t).exchange(p.atOpen, raw) {
		theirs := a.StatusCode == http.StatusNotImplemented || a.StatusCode == http.StatusHTTPVersionNotSupported
		if a.StatusCode >= 500 && (!theirs || a.Header.Get("Content-Type") != "text/plain; charset=utf-8") {
			t.Errorf("%.300q: %s, %s", raw, a.Status, a.body)
		}
	}
	for _, a := range p.shut.forTest(t).exchange(p.atShut, raw) {
		free := strings.HasPrefix(a.body, `{"status":"`) // livez and readyz; assets and metrics are neither JSON nor HTML
		kind, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
		if a.StatusCode == http.StatusOK && (kind == "application/json" || kind == "text/html") && !free {
			t.Errorf("%.300q: it got past the limit: %.200s", raw, a.body)
		}
	}
}

// FuzzRequest finds more with -fuzzminimizetime=5x. A server never does quite the same twice,
// so making an input smaller takes most of the time otherwise.
func FuzzRequest(f *testing.F) {
	for _, raw := range hostile() {
		f.Add(raw)
	}
	p := newProof(f)
	f.Fuzz(func(t *testing.T, raw []byte) { p.holds(t, raw) })
}

// TestHostileRequests also pins that they leave nothing behind.
func TestHostileRequests(t *testing.T) {
	rounds := full(2, 100)
	p := newProof(t)
	all := slices.DeleteFunc(hostile(), func(raw []byte) bool { return bytes.Contains(raw, []byte("Content-Length: 1099511627776")) })
	once := func() {
		for some := range slices.Chunk(all, 16) {
			var together sync.WaitGroup // as most of the time goes into waiting for what is cut
			for _, raw := range some {
				together.Go(func() { p.holds(t, raw) })
			}
			together.Wait()
		}
	}
	once()
	before := heap()
	for range rounds {
		once()
	}
	if after := heap(); after > before+2<<20 {
		t.Errorf("%d requests left %d bytes", rounds*len(all)*2, after-before)
	}
}

// TestHugeBodiesAreNotKept sends much more than is read.
func TestHugeBodiesAreNotKept(t *testing.T) {
	p := newProof(t)
	before := heap()
	for _, path := range []string{"/api/v1/quota", "/v1/reserve", "/nothing"} {
		c := p.open.dial(p.atOpen)
		_, err := io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+theToken+"\r\nContent-Length: 1099511627776\r\n\r\n")
		p.open.Must(err)
		sent, block := 0, bytes.Repeat([]byte("["), 64<<10)
		for ; sent < 64<<20; sent += len(block) {
			if _, err := c.Write(block); err != nil {
				break
			}
		}
		if sent >= 64<<20 {
			t.Errorf("%s: it took 64 MiB", path)
		}
		if grown := int64(heap()) - int64(before); grown > 4<<20 {
			t.Errorf("%s: %d bytes were kept of it", path, grown)
		}
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
