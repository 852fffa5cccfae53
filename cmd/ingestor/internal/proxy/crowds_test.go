package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

// TestCallsOfATokenAreBounded: one token does not take the places of all.
func TestCallsOfATokenAreBounded(t *testing.T) {
	end := make(chan struct{})
	var told []time.Time
	r := newRig(t, rigOptions{
		format: "github",
		grants: []Grant{{Upstreams: []string{"api"}}, {Upstreams: []string{"api"}}},
		change: func(o *Options) { o.Told = func(_ error, at time.Time) { told = append(told, at) } },
		serve: func(_ http.ResponseWriter, req *http.Request) {
			if req.URL.RawQuery == "long" {
				<-end
			}
		},
	})
	r.handler.calls = guard.NewCounts[string](1)
	long := make(chan answered)
	go func() { long <- r.call("GET", "/api/v1/items?long") }()
	until(t, "a call is under way", func() bool { return r.seen() != nil })
	got := r.call("GET", "/api/v1/items")
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Headroom-Refused") != "too_many_at_once" || got.Header.Get("Retry-After") != "1" ||
		got.Header.Get("X-Should-Retry") != "" || r.seen() != nil {
		t.Errorf("one more: %s %q", got.Status, got.Header)
	}
	if calls := r.turnedAway("token"); calls != 1 {
		t.Errorf("%d calls are counted", calls)
	}
	if len(told) > 0 {
		t.Errorf("it is told as a lack of units until %s", told[0])
	}
	other := r.request("GET", "/api/v1/items", nil)
	other.Header.Set("X-Api-Key", strings.Repeat("1", 32))
	if got := r.send(other); got.StatusCode != http.StatusOK {
		t.Errorf("another token: %s", got.Status)
	}
	close(end)
	if got := <-long; got.StatusCode != http.StatusOK {
		t.Errorf("the first: %s", got.Status)
	}
	if got := r.call("GET", "/api/v1/items"); got.StatusCode != http.StatusOK {
		t.Errorf("after the first: %s", got.Status)
	}
}

// TestWrongTokensAreSlowed, and the right one is not.
func TestWrongTokensAreSlowed(t *testing.T) {
	r := newRig(t, rigOptions{})
	with := func(token string) answered {
		req := r.request("GET", "/api/v1/items", nil)
		if req.Header.Set("X-Api-Key", token); token == "" {
			req.Header.Del("X-Api-Key")
		}
		return r.send(req)
	}
	for range 20 {
		if got := with("wrong"); got.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a wrong token: %s", got.Status)
		}
	}
	got := with("wrong")
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Headroom-Refused") != "too_many_guesses" || got.Header.Get("Retry-After") == "" || !got.Close {
		t.Errorf("one too many: %s %q", got.Status, got.Header)
	}
	if got := with(""); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("no token: %s", got.Status)
	}
	if got := with(theToken); got.StatusCode != http.StatusOK {
		t.Errorf("the right token: %s", got.Status)
	}
	if lines := strings.Count(r.log.String(), "wrong tokens"); lines != 1 {
		t.Errorf("%d lines of the log tell of it", lines)
	}
}

// TestConnectionsOfAnAddressAreBounded: the one that waits longest makes room for another.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	r := newRig(t, rigOptions{})
	closed := make(chan string, 10)
	r.handler.crowd = guard.NewCrowd(10, 2, func(netip.Addr) bool { return false }, func(reason string, _ netip.Prefix) { closed <- reason })
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.handler.Serve(ctx, ctx, l) }()
	dial := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		return c
	}
	first, calling := dial(), []net.Conn{dial(), dial()}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the first of three is open: %v", err)
	}
	if len(closed) != 1 {
		t.Errorf("%d connections made room", len(closed))
	}
	for n := range 3 {
		if n == 2 {
			calling = append(calling, dial()) // takes the place of one whose call has ended
		}
		c := calling[n]
		fmt.Fprint(c, "GET /api/v1/items HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a call: %s", resp.Status)
		}
	}
	stop()
	if err := <-ended; err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("it ended with %v", err)
	}
}
