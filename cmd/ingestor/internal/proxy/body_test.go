package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestStream: the header and each piece of a stream reach the program before the next one,
// also of a slow answer whose length is known.
func TestStream(t *testing.T) {
	t.Run("events", func(t *testing.T) { testStream(t, "Content-Type", "text/event-stream") })
	t.Run("known_length", func(t *testing.T) { testStream(t, "Content-Length", "24") })
}

func testStream(t *testing.T, name, value string) {
	next := make(chan string)
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(name, value)
		_ = http.NewResponseController(w).Flush()
		for piece := range next {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}})
	resp, err := still.Do(r.request("GET", "/api/v1/items", nil)) // returns with the header
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		want := fmt.Sprintf("data: %d\n", i)
		next <- want
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Fatalf("%q %v", got, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(lines); len(rest) > 0 || err != nil {
		t.Errorf("then %q %v", rest, err)
	}
}

// TestLargeBodies: bodies of 100 MB pass both ways, and are never held as a whole.
func TestLargeBodies(t *testing.T) {
	size := int64(24 << 20)
	if os.Getenv("HEADROOM_SOAK") != "" {
		size = 100 << 20
	}
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, req *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, req.Body)
		w.Header().Set("X-Sum", fmt.Sprintf("%x %d %v", sum.Sum(nil), n, err))
		_, _ = io.Copy(w, endless(size))
	}})
	sum := sha256.New()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resp, err := still.Do(r.request("PUT", "/api/v1/items", io.TeeReader(io.NopCloser(endless(size)), sum)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if want := fmt.Sprintf("%x %d <nil>", sum.Sum(nil), size); resp.Header.Get("X-Sum") != want {
		t.Errorf("the upstream got %s, want %s", resp.Header.Get("X-Sum"), want)
	}
	got := sha256.New()
	if n, err := io.Copy(got, resp.Body); n != size || err != nil || !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(size)/2 {
		t.Errorf("%d bytes were allocated for bodies of %d", grown, size)
	}
}

// endless returns a body of text.
func endless(size int64) io.Reader {
	return io.LimitReader(&repeated{text: []byte("0123456789abcdef\nsk-live+a/k ")}, size)
}

type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		c := copy(p[n:], r.text[r.at:])
		n, r.at = n+c, (r.at+c)%len(r.text)
	}
	return len(p), nil
}

// TestUploadIsPassedOnWhileItComes: the upstream gets the beginning of a body before the
// program has sent the end.
func TestUploadIsPassedOnWhileItComes(t *testing.T) {
	begun := make(chan string)
	r := newRig(t, rigOptions{serve: func(_ http.ResponseWriter, req *http.Request) {
		first := make([]byte, 5)
		_, _ = io.ReadFull(req.Body, first)
		begun <- string(first)
		_, _ = io.Copy(io.Discard, req.Body)
	}})
	body, in := io.Pipe()
	done := make(chan answered)
	go func() { done <- r.send(r.request("PUT", "/api/v1/items", body)) }()
	_, _ = io.WriteString(in, "first")
	if got := <-begun; got != "first" {
		t.Errorf("the upstream got %q", got)
	}
	_ = in.Close()
	if got := <-done; got.StatusCode != 200 {
		t.Errorf("%s %s", got.Status, got.body)
	}
}

func TestTrailers(t *testing.T) {
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Trailer", "X-Sum, Set-Cookie")
		_, _ = io.WriteString(w, fmt.Sprint(req.Trailer))
		w.Header().Set("X-Sum", "echo of "+theKey)
		w.Header().Set("Set-Cookie", "a=1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "late")
		w.Header().Set(http.TrailerPrefix+"Set-Cookie2", "a=1")
	}})
	req := r.request("PUT", "/api/v1/items", io.NopCloser(strings.NewReader("body")))
	req.Trailer = http.Header{"X-Check": {"4711"}, "Cookie": {"theirs"}}
	got := r.send(req)
	if got.body != "map[X-Check:[4711]]" {
		t.Errorf("the upstream got the trailers %s", got.body)
	}
	if sum := got.Trailer.Get("X-Sum"); !strings.HasPrefix(sum, "echo of ***") || strings.Contains(sum, theKey) || got.Trailer.Get("X-Late") != "late" {
		t.Errorf("the program got the trailers %q", got.Trailer)
	}
	if len(got.Trailer.Values("Set-Cookie"))+len(got.Trailer.Values("Set-Cookie2")) > 0 {
		t.Errorf("the program got cookies in the trailers %q", got.Trailer)
	}
}

// TestHTTP2 speaks it over TLS, and without TLS to programs that know the proxy does.
func TestHTTP2(t *testing.T) {
	r := newRig(t, rigOptions{})
	secure := httptest.NewUnstartedServer(r.handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	plain := &http.Transport{Protocols: new(http.Protocols)}
	plain.Protocols.SetUnencryptedHTTP2(true)
	for scheme, client := range map[string]*http.Client{"https": secure.Client(), "http": {Transport: plain}} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		req := r.request("GET", "/api/v1/items", nil)
		req.URL.Host, req.URL.Scheme = l.Addr().String(), scheme
		if scheme == "https" {
			l = tls.NewListener(l, secure.TLS)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.handler.Serve(ctx, t.Context(), l) }()
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s %s", scheme, resp.Proto, resp.Status)
		}
		client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestGoneClient: when the program hangs up, so does the proxy.
func TestGoneClient(t *testing.T) {
	begun, gone := make(chan bool), make(chan error, 1)
	r := newRig(t, rigOptions{serve: func(_ http.ResponseWriter, req *http.Request) {
		close(begun)
		<-req.Context().Done()
		gone <- req.Context().Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := still.Do(r.request("GET", "/api/v1/items", nil).WithContext(ctx)); !errors.Is(err, context.Canceled) { //nolint:bodyclose // there is none
		t.Errorf("the program got %v", err)
	}
	if err := <-gone; err == nil {
		t.Error("the upstream's request went on")
	}
	if r.spent("etl") != 2 {
		t.Error("a call that was sent is not charged")
	}
}

// TestBrokenAnswer: an answer that breaks off is not passed on as a whole one.
func TestBrokenAnswer(t *testing.T) {
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}})
	resp, err := still.Do(r.request("GET", "/api/v1/items", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the program got %q as a whole", body)
	}
}

func TestUpgrades(t *testing.T) {
	r := newRig(t, rigOptions{})
	if got := r.call("GET", "/api/v1/items", "Connection", "Upgrade", "Upgrade", "websocket"); got.StatusCode != http.StatusBadRequest || r.seen() != nil {
		t.Errorf("a WebSocket: %s", got.Status)
	}
	got := r.call("GET", "/api/v1/items", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA")
	if sent := r.seen(); got.StatusCode != http.StatusOK || sent.Header.Get("Upgrade") != "" || sent.Header.Get("Http2-Settings") != "" {
		t.Errorf("an offer of HTTP/2: %s, and the upstream got %q", got.Status, sent.Header)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT other.test:443 HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n\r\n", theToken)
	line, _ := bufio.NewReader(conn).ReadString('\n')
	if r.seen() != nil || !strings.Contains(line, " 40") && !strings.Contains(line, " 421") {
		t.Errorf("CONNECT: %q", line)
	}
}

// TestInterim: an interim answer does not reach the program with headers of the upstream.
func TestInterim(t *testing.T) {
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "<https://other.test/x.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	}})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		t.Errorf("the program got %d %q", status, h)
		return nil
	}})
	if got := r.send(r.request("GET", "/api/v1/items", nil).WithContext(ctx)); got.StatusCode != 200 || got.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %q", got.Status, got.Header)
	}
}

// closedBody is a body of net/http that is closed at its end, as net/http does when the answer begins.
type closedBody struct{ ended bool }

func (b *closedBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, http.ErrBodyReadAfterClose
	}
	b.ended = true
	return copy(p, "hello"), io.EOF
}

func (*closedBody) Close() error { return nil }

// TestBodyStaysAtItsEnd: the transport reads on behind the end of a body. If the upstream answers a
// moment earlier, its connection must not be closed for that: the answer would be cut off.
func TestBodyStaysAtItsEnd(t *testing.T) {
	b := &body{ReadCloser: &closedBody{}}
	for range 3 {
		if _, err := io.Copy(io.Discard, b); err != nil {
			t.Fatal(err)
		}
	}
}
