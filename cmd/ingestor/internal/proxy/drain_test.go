package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

var poolOfAPI = quota.Pool{Upstream: "api", Name: "units"}

// TestLargeRefusedBodies: a program that sends all of a large body before it reads gets the
// refusal, not a reset connection.
func TestLargeRefusedBodies(t *testing.T) {
	r := newRig(t, rigOptions{asks: true})
	r.handler.linger = time.Minute
	if err := r.ledger.BlockFor(t.Context(), poolOfAPI, time.Hour, "shut"); err != nil {
		t.Fatal(err)
	}
	const size = 24 << 20
	lengths := map[string]func(io.Writer) error{
		fmt.Sprint("Content-Length: ", size): func(w io.Writer) error {
			_, err := io.Copy(w, endless(size))
			return err
		},
		"Transfer-Encoding: chunked": func(w io.Writer) error {
			if _, err := fmt.Fprintf(w, "%x\r\n", size); err != nil {
				return err
			}
			if _, err := io.Copy(w, endless(size)); err != nil {
				return err
			}
			_, err := io.WriteString(w, "\r\n0\r\n\r\n")
			return err
		},
	}
	for header, send := range lengths {
		for call, want := range map[string]int{
			"PUT /api/v1/items " + theToken: http.StatusTooManyRequests,
			"PUT /api/v1/items ":            http.StatusUnauthorized,
			"POST /own/v1/ask " + theToken:  http.StatusRequestEntityTooLarge, // of which a part was read
		} {
			verb, rest, _ := strings.Cut(call, " ")
			path, token, _ := strings.Cut(rest, " ")
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nHeadroom-Token: %s\r\n%s\r\n\r\n", verb, path, token, header)
			if err := send(conn); err != nil {
				t.Errorf("%s, %s: the body was not taken: %v", call, header, err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", header, err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want || !resp.Close {
				t.Errorf("%s, %s: %s, closes: %v; want %d", call, header, resp.Status, resp.Close, want)
			}
			_ = conn.Close()
		}
	}
}

// TestARefusalDoesNotWaitForTheBody: a program that sends no more once it is refused gets all of the
// answer at once.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.handler.linger = 10 * time.Minute
	for _, header := range []string{"Content-Length: 1048576", "Transfer-Encoding: chunked"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(conn, "PUT /api/v1/items HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", header)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", header, err)
		}
		text, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil || resp.StatusCode != http.StatusUnauthorized || !resp.Close || !strings.Contains(string(text), "no_token") {
			t.Errorf("%s: %s, closes: %v, %v %s", header, resp.Status, resp.Close, err, text)
		}
	}
}

// TestRefusedBodyKeepsConnection: a refusal costs no connection if the body is small.
func TestRefusedBodyKeepsConnection(t *testing.T) {
	r := newRig(t, rigOptions{})
	if err := r.ledger.BlockFor(t.Context(), poolOfAPI, time.Hour, "shut"); err != nil {
		t.Fatal(err)
	}
	r.call("GET", "/own/v1/items") // makes the connection
	for _, call := range []struct {
		verb, token string
		status      int
	}{{"POST", theToken, http.StatusTooManyRequests}, {"PUT", theToken, http.StatusTooManyRequests}, {"PUT", "", http.StatusUnauthorized}, {"GET", theToken, http.StatusTooManyRequests}} {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		var sent io.Reader
		if call.verb != "GET" {
			sent = strings.NewReader(strings.Repeat("x", 100<<10))
		}
		req := r.request(call.verb, "/api/v1/items", sent).WithContext(ctx)
		req.Header.Set("X-Api-Key", call.token)
		if got := r.send(req); got.StatusCode != call.status || !reused || got.Close {
			t.Errorf("%s: %s, on the same connection: %v, closes: %v", call.verb, got.Status, reused, got.Close)
		}
	}
}

// TestStopCutsOffStreams: a stream that outlasts the time to stop is cut off, and that is no
// error: systemd would count it as a failure.
func TestStopCutsOffStreams(t *testing.T) {
	r := newRig(t, rigOptions{serve: func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	}, change: func(o *Options) { o.Grace = 50 * time.Millisecond }})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.handler.Serve(ctx, context.WithoutCancel(ctx), l) }()
	req := r.request("GET", "/api/v1/items", nil)
	req.URL.Host = l.Addr().String()
	resp, err := still.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, len("begun"))); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the program got the stream as a whole")
	}
	if err := <-ended; err != nil || !strings.Contains(r.log.String(), `cut off open calls" after=50ms`) {
		t.Errorf("it ended with %v\n%s", err, r.log)
	}
}

// TestRefusedBodyIsNotAskedFor: a program that waits for leave to send its body gets the
// refusal in its place.
func TestRefusedBodyIsNotAskedFor(t *testing.T) {
	r := newRig(t, rigOptions{})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r.handler.linger = 10 * time.Minute
	if _, err := io.WriteString(conn, "PUT /api/v1/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	_ = conn.Close()
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 401 ") || strings.Contains(string(all), "100 Continue") {
		t.Errorf("%v: %s", err, all)
	}
}
