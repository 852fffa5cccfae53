package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/testing/viewtest"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// patience is how long a test waits for what must come at once. It is not asserted.
const patience = 30 * time.Second

// serving is a rig's server at its own listener.
type serving struct {
	address string
	stop    context.CancelFunc // asks it to stop
	abort   context.CancelFunc // and not to wait
	ended   chan error
}

// serve has the server answer as ingestor serve has it.
func (r *rig) serve() *serving {
	r.Helper()
	var how net.ListenConfig
	l, err := how.Listen(r.Context(), "tcp", "127.0.0.1:0")
	r.Must(err)
	return r.serveAt(l)
}

func (r *rig) serveAt(l net.Listener) *serving { return r.serveWith(l, r.server.Serve) }

// serveWith serves from a listener until the test ends.
func (r *rig) serveWith(l net.Listener, serve func(ctx, abort context.Context, l net.Listener) error) *serving {
	ctx, stop := context.WithCancel(context.Background())
	abort, cut := context.WithCancel(context.Background())
	s := &serving{l.Addr().String(), stop, cut, make(chan error, 1)}
	go func() { s.ended <- serve(ctx, abort, l); close(s.ended) }()
	r.Cleanup(func() { cut(); stop(); <-s.ended })
	return s
}

// dial connects to the server, for as long as a test may take.
func (r *rig) dial(s *serving) net.Conn {
	r.Helper()
	c := r.connect(s)
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// connect is dial for who closes it: the test remembers nothing of it.
func (r *rig) connect(s *serving) net.Conn {
	r.Helper()
	var how net.Dialer
	c, err := how.DialContext(r.Context(), "tcp", s.address)
	r.Must(err)
	r.Must(c.SetDeadline(time.Now().Add(patience)))
	return c
}

// hold keeps a question to the ledger from being answered until the function that it
// returns is called. The channel says that it has been asked.
func (r *rig) hold() (asked chan struct{}, release func()) {
	asked, free := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(asked) })
	before := func(ctx context.Context) error {
		tell()
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.Store.Before.Store(&before)
	return asked, func() { close(free) }
}

func TestSlowClientsAreCut(t *testing.T) {
	short := web.Timeouts{Header: 50 * time.Millisecond, Request: 100 * time.Millisecond, Answer: 200 * time.Millisecond, Idle: 50 * time.Millisecond}
	r := newRig(t, &web.Options{Timeouts: short})
	r.token(theToken)
	r.Run("trending")
	s := r.serve()
	for name, sent := range map[string]string{
		"that say nothing":        "",
		"with half a header":      "GET /api/v1/quota HTTP/1.1\r\nHost: local",
		"with half a request":     "GET /api/v1/quota HTTP/1.1\r\nHost: localhost\r\n",
		"with half a body":        "POST /api/v1/quota HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
		"with half a body read":   "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + theToken + "\r\nContent-Length: 100\r\n\r\n{",
		"with half a chunk":       "POST /api/v1/quota HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
		"that say nothing more":   "GET /api/v1/quota HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"that want to go on":      "POST /api/v1/quota HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"with another half a one": "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nGET /",
	} {
		c := r.dial(s)
		_, err := io.WriteString(c, sent)
		r.Must(err)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("clients %s are waited for", name)
		}
	}

	// One that reads nothing of what it asks for fills what is between it and the
	// server, which then writes no longer.
	c := r.dial(s)
	ask := []byte(strings.Repeat("GET /api/v1/trending?region=US HTTP/1.1\r\nHost: localhost\r\n\r\n", 100))
	for {
		if _, err := c.Write(ask); err != nil {
			if isTimeout(err) {
				t.Error("a client that does not read is waited for")
			}
			break
		}
	}
}

// TestConnectionsAreBounded: one that waits for its client makes room for another, and one
// that the server is at work for does not.
func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, &web.Options{Connections: 1})
	answered := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") // it may be closed already
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		return err == nil && a.StatusCode == http.StatusOK && a.Body.Close() == nil
	}
	s := r.serve()
	var before net.Conn
	for range 5 {
		c := r.dial(s)
		for !answered(c) { // the one before is idle only once it knows of its answer
			c = r.dial(s)
		}
		if before != nil {
			if _, err := io.Copy(io.Discard, before); isTimeout(err) {
				t.Error("an idle one did not make room")
			}
		}
		before = c
	}

	silent := r.dial(s)
	asked, release := r.hold()
	busy := r.dial(s)
	_, err := io.WriteString(busy, "GET /api/v1/quota HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r.Must(err)
	<-asked
	if _, err := io.Copy(io.Discard, silent); isTimeout(err) {
		t.Error("a silent one did not make room")
	}
	for range 5 {
		if answered(r.dial(s)) {
			t.Error("one too many is answered")
		}
	}
	release()
	if a, err := http.ReadResponse(bufio.NewReader(busy), nil); err != nil || a.StatusCode != http.StatusOK || a.Body.Close() != nil {
		t.Errorf("who came first gets %v, %v", a, err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	r := newRig(t, nil)
	s := r.serve()
	asked, release := r.hold()
	c := r.dial(s)
	_, err := io.WriteString(c, "GET /api/v1/quota HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r.Must(err)
	<-asked
	s.stop()
	for { // until it does not listen any more
		another, err := net.Dial("tcp", s.address) //nolint:noctx // it is ours
		if err != nil {
			break
		}
		r.Must(another.Close())
	}
	select {
	case err := <-s.ended:
		t.Fatalf("it stopped before it had answered: %v", err)
	default:
	}
	release()
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	r.Must(err)
	body, err := io.ReadAll(a.Body)
	r.Must(errors.Join(err, a.Body.Close()))
	if a.StatusCode != http.StatusOK || !strings.HasSuffix(string(body), "}\n") {
		t.Errorf("it answered %s, %s", a.Status, body)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestAServerKeepsTheTotalsOfDays: the catalog has them longer than the ledger.
func TestAServerKeepsTheTotalsOfDays(t *testing.T) {
	r := newRig(t, nil)
	r.Run("trending")
	s := r.serve()
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		days, err := r.Catalog.Days(t.Context(), "youtube/units", "2026-11-20")
		r.Must(err)
		if len(days) == 1 && days[0].Units == 4 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("it keeps %v", days)
		}
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	for name, stop := range map[string]func(*serving){
		"for longer than it may": func(s *serving) { s.stop() },
		"when it is to abort":    func(s *serving) { s.stop(); s.abort() },
	} {
		o := &web.Options{}
		if name == "for longer than it may" {
			o.Timeouts.Stop = time.Millisecond
		}
		r := newRig(t, o)
		s := r.serve()
		asked, _ := r.hold()
		_, err := io.WriteString(r.dial(s), "GET /api/v1/quota HTTP/1.1\r\nHost: localhost\r\n\r\n")
		r.Must(err)
		<-asked
		stop(s)
		select {
		case err := <-s.ended:
			if err == nil {
				t.Errorf("%s: it does not say that it has cut somebody off", name)
			}
		case <-time.After(patience):
			t.Errorf("it waits %s", name)
		}
	}
}

func TestOutage(t *testing.T) {
	r := newRig(t, nil)
	down := func(context.Context) error { return errors.New("dial tcp 10.1.2.3:6379: no such host") }
	r.Store.Before.Store(&down)
	p := r.problem(http.StatusServiceUnavailable, "GET", "/api/v1/quota", "")
	if p.Code != "outage" || p.Detail != "the ledger cannot be reached, so the units left are not known" {
		t.Errorf("it says %q", p.Detail)
	}
	if a := r.ask("GET", "/api/v1/regions", ""); a.StatusCode != http.StatusOK {
		t.Errorf("what is not in the ledger: %s", a.Status)
	}
}

// TestOneForgottenPoolIsTold: the answer has the pools that are known, and what to do about the other.
func TestOneForgottenPoolIsTold(t *testing.T) {
	r := newRig(t, nil)
	r.Store.Lost.Store(&quota.ForgottenError{Pool: quota.Pool{Upstream: "youtube", Account: "default", Name: "searches"}, Born: viewtest.Noon})
	if p := r.problem(http.StatusServiceUnavailable, "GET", "/readyz", ""); p.Detail != "the ledger has forgotten what was spent" {
		t.Errorf("the probe says %q", p.Detail)
	}
	var is verdict.Standing
	r.get("/api/v1/quota", &is)
	known := map[string]bool{}
	for _, p := range is.Pools {
		known[p.Pool] = true
	}
	if !known["youtube/units"] || known["youtube/searches"] || len(is.Lost) != 1 || is.Lost[0].Pool != "youtube/searches" ||
		!is.Lost[0].Since.Equal(viewtest.Noon) || !strings.Contains(is.Lost[0].Says, "ingestor quota adjust youtube/searches UNITS --reason TEXT") {
		t.Errorf("it says %+v, and knows %v", is.Lost, known)
	}
	if is.Verdict == nil || is.Verdict.Level != view.Warn {
		t.Errorf("the verdict is %+v", is.Verdict)
	}
}

// TestSlowHandshakesAreCut has clients begin to speak TLS, and stop.
func TestSlowHandshakesAreCut(t *testing.T) {
	r := newRig(t, &web.Options{Timeouts: web.Timeouts{Header: 50 * time.Millisecond}})
	front := httptest.NewTLSServer(nil) // for its certificate
	front.Close()
	var how net.ListenConfig
	l, err := how.Listen(t.Context(), "tcp", "127.0.0.1:0")
	r.Must(err)
	s := r.serveAt(tls.NewListener(l, front.TLS))
	for _, sent := range []string{"", "\x16\x03\x01", "GET / HTTP/1.1\r\n"} {
		c := r.dial(s)
		_, err := io.WriteString(c, sent)
		r.Must(err)
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("a client that said %q is waited for", sent)
		}
	}
}
