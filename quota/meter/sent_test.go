package meter_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

const items = "https://api.example.com/v1/items"

// The final charge of a call depends on how far the call came.
func TestSettlement(t *testing.T) {
	t.Run("no connection: nothing", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.server.Close()
		if _, _, err := r.do(t.Context(), "GET", items, ""); err == nil {
			t.Fatal("there is a server")
		}
		r.charged(0)
	})
	t.Run("cancelled while it is being connected: nothing", func(t *testing.T) {
		r := newRig(t, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		r.dial(func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if _, _, err := r.do(ctx, "GET", items, ""); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.charged(0)
	})
	t.Run("cancelled before it began: nothing", func(t *testing.T) {
		r := newRig(t, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := r.do(ctx, "GET", items, ""); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.charged(0)
	})
	t.Run("cancelled when it was reserved: nothing, and it is not sent", func(t *testing.T) {
		r := newRig(t, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		granted := false
		ledger, err := quota.New(r.ledger.Book(), newStore(r.clock), &quota.Options{Clock: r.clock, Observer: quota.ObserverFunc(func(e quota.Event) {
			if e.Kind == quota.EventGranted {
				granted = true
				cancel()
			}
		})})
		if err != nil {
			t.Fatal(err)
		}
		r.ledger = ledger
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("it was sent")
			return nil, errors.New("sent")
		})})
		budget := meter.NewBudget(5)
		req, _ := http.NewRequestWithContext(meter.WithBudget(ctx, budget), "GET", items, nil)
		if err := r.bare(req); !errors.Is(err, context.Canceled) || !granted {
			t.Errorf("error %v, granted %v", err, granted)
		}
		r.charged(0)
		if spent := budget.Spent(); spent != 0 {
			t.Errorf("%d units of the budget are spent", spent)
		}
	})
	t.Run("cancelled before its headers seemed to be written: all", func(t *testing.T) {
		r := newRig(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, nil) // or it may win
		ctx, cancel := context.WithCancel(t.Context())
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { cancel() }})
		if _, _, err := r.do(ctx, "GET", items, ""); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.charged(1)
	})
	t.Run("cancelled after it was sent: all", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRig(t, func(_ http.ResponseWriter, req *http.Request) {
			cancel()
			<-req.Context().Done()
		}, nil)
		if _, _, err := r.do(ctx, "GET", items, ""); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.charged(1)
	})
	t.Run("the client's timeout while it waits for headers: all", func(t *testing.T) {
		var sent atomic.Bool
		for timeout := 50 * time.Millisecond; !sent.Load(); timeout *= 2 { // a busy machine needs longer to send it
			r := newRig(t, func(_ http.ResponseWriter, req *http.Request) {
				sent.Store(true)
				<-req.Context().Done()
			}, nil)
			r.client.Timeout = timeout
			_, _, err := r.do(t.Context(), "GET", items, "")
			var late interface{ Timeout() bool }
			if !errors.As(err, &late) || !late.Timeout() {
				t.Fatalf("error %v is no timeout", err)
			}
			if sent.Load() {
				r.charged(1)
			}
		}
	})
	t.Run("the client's timeout while it is being connected: nothing", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.dial(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r.client.Timeout = 50 * time.Millisecond
		if _, _, err := r.do(t.Context(), "GET", items, ""); err == nil {
			t.Fatal("there is an answer")
		}
		r.charged(0)
	})
	t.Run("a body that ends half-way: all", func(t *testing.T) {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "half")
		}, nil)
		_, text, err := r.do(t.Context(), "GET", items, "")
		if !errors.Is(err, io.ErrUnexpectedEOF) || text != "half" {
			t.Errorf("%q, %v", text, err)
		}
		r.charged(1)
	})
	t.Run("a body that was cancelled half-way: all", func(t *testing.T) {
		r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "GET", items, nil)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		half := make([]byte, 4)
		io.ReadFull(resp.Body, half)
		cancel()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		r.charged(1)
	})
	t.Run("a connection that is reset: all", func(t *testing.T) {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}, nil)
		if _, _, err := r.do(t.Context(), "GET", items, ""); err == nil {
			t.Fatal("there is an answer")
		}
		r.charged(1)
	})
	t.Run("a base that knows no httptrace: all, whatever came of it", func(t *testing.T) {
		r := newRig(t, nil, nil)
		failed := errors.New("failed")
		r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, failed })})
		if _, _, err := r.do(t.Context(), "GET", items, ""); !errors.Is(err, failed) {
			t.Errorf("error %v", err)
		}
		r.charged(1)
	})
	t.Run("an answer in spite of a trace that is not whole: all", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.meter(&meter.Options{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(req.Context()).GetConn("api.example.com:80")
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})})
		r.get(items)
		r.charged(1)
	})
	t.Run("a base that repeats a call: each time", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.meter(&meter.Options{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := r.base.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			resp.Body.Close()
			return r.base.RoundTrip(req)
		})})
		if status, _, err := r.do(t.Context(), "POST", items, ""); err != nil || status != http.StatusOK {
			t.Errorf("%d, %v", status, err)
		}
		r.charged(80)
	})
	t.Run("no connection under a hold: the units go back to it", func(t *testing.T) {
		r := newRig(t, nil, nil)
		hold := r.hold("items.list", 2)
		r.server.Close()
		if _, _, err := r.do(hold.Context(t.Context()), "GET", items, ""); err == nil {
			t.Fatal("there is a server")
		}
		if left := hold.Left()["units"]; left != 2 {
			t.Errorf("%d units are left in the hold, want 2", left)
		}
	})
}

// A server may have read a request on a connection that then died; net/http sends a
// GET again by itself, below any transport. Both may count.
func TestReplayByNetHTTP(t *testing.T) {
	r := newRig(t, nil, nil)
	s := startDeadConn(t)
	r.dial(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Addr().String())
	})
	r.get(items) // answered
	r.charged(1)
	r.get(items) // read by the server, not answered, and sent again
	if got := s.seen.Load(); got != 3 {
		t.Errorf("the server read %d requests, want 3", got)
	}
	r.charged(3)
	// a POST is not sent again
	s.die.Store(true)
	if _, _, err := r.do(t.Context(), "POST", items, "{}"); err == nil {
		t.Error("a dead connection answered")
	}
	r.charged(43)
}

// deadConn is a server whose connections die after reading a second request.
type deadConn struct {
	net.Listener
	seen atomic.Int64
	die  atomic.Bool // with the next request
	wait sync.WaitGroup
}

func startDeadConn(t *testing.T) *deadConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &deadConn{Listener: l}
	t.Cleanup(func() {
		l.Close()
		s.wait.Wait()
	})
	s.wait.Go(func() {
		for first := true; ; first = false {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.wait.Go(func() { s.serve(conn, first) })
		}
	})
	t.Cleanup(func() { l.Close() })
	return s
}

func (s *deadConn) serve(conn net.Conn, once bool) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for n := 1; ; n++ {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		s.seen.Add(1)
		if once && n == 2 || s.die.Load() {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	}
}

// The chunks of an upload go to its session and cost nothing more.
func TestResumableUpload(t *testing.T) {
	var fail atomic.Bool
	var saw []string
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		saw = append(saw, req.Method+" "+req.Header.Get("Content-Range")+" "+string(text)+" "+req.Header.Get("X-Api-Key"))
		switch {
		case req.URL.Query().Get("upload_id") == "":
			w.Header().Set("Location", "https://api.example.com/upload/v1/items?uploadType=resumable&upload_id=7")
		case fail.CompareAndSwap(true, false):
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, &meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key("secret")}})
	const begin = "https://api.example.com/upload/v1/items?uploadType=resumable"
	if _, _, err := r.do(t.Context(), "POST", begin, "{}"); err != nil {
		t.Fatal(err)
	}
	r.charged(40)
	chunk := func(verb, span, text string) (int, error) {
		req, _ := http.NewRequest(verb, begin+"&upload_id=7", strings.NewReader(text))
		req.Header.Set("Content-Range", span)
		status, _, err := r.send(req)
		return status, err
	}
	fail.Store(true)
	for _, c := range []struct {
		verb, span, text string
		status           int
	}{
		{"POST", "bytes 0-1/*", "ab", http.StatusServiceUnavailable},
		{"POST", "bytes 0-1/*", "ab", http.StatusOK}, // again
		{"PUT", "bytes 2-3/4", "cd", http.StatusOK},
		{"PUT", "bytes */4", "", http.StatusOK}, // how far did it get?
	} {
		if status, err := chunk(c.verb, c.span, c.text); err != nil || status != c.status {
			t.Errorf("chunk %s: %d, %v", c.span, status, err)
		}
	}
	r.charged(40)
	if want := "POST  {} secret,POST bytes 0-1/* ab secret,POST bytes 0-1/* ab secret,PUT bytes 2-3/4 cd secret,PUT bytes */4  secret"; strings.Join(saw, ",") != want {
		t.Errorf("the server saw %s", strings.Join(saw, ","))
	}

	for _, c := range []struct{ why, verb, url, span string }{
		{"no chunk", "POST", begin + "&upload_id=7", ""},
		{"no upload under way", "POST", begin, "bytes 0-1/2"},
		{"nothing is sent", "GET", items + "?upload_id=7", "bytes 0-1/2"},
	} {
		t.Run("charged: "+c.why, func(t *testing.T) {
			r := newRig(t, nil, nil)
			req, _ := http.NewRequest(c.verb, c.url, nil)
			if c.span != "" {
				req.Header.Set("Content-Range", c.span)
			}
			if _, _, err := r.send(req); err != nil || r.used("api/units") == 0 {
				t.Errorf("%d units charged, %v", r.used("api/units"), err)
			}
		})
	}
}

// settlesMeanwhile is a store whose settlements wait for a refusal. The refusal is then
// returned only after them.
type settlesMeanwhile struct {
	quota.Store
	refused chan struct{}
	settled func()
}

func (s *settlesMeanwhile) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	v, err := s.Store.Reserve(ctx, r)
	select {
	case <-s.refused:
	default:
		if !v.Allowed {
			close(s.refused)
			s.settled()
		}
	}
	return v, err
}

func (s *settlesMeanwhile) Settle(ctx context.Context, t quota.Token, u quota.Units) (quota.Settlement, error) {
	<-s.refused
	return s.Store.Settle(ctx, t, u)
}

// TestARefusalIsAskedAgainAfterASettlement: units come back after the store's verdict, and
// before the transport can look for settlements that are under way.
func TestARefusalIsAskedAgainAfterASettlement(t *testing.T) {
	r := newModel(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, usage) }, nil)
	store := &settlesMeanwhile{Store: newStore(r.clock), refused: make(chan struct{})}
	var err error
	if r.ledger, err = quota.New(r.ledger.Book(), store, &quota.Options{Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	r.meter(nil)
	store.settled = r.flush
	r.post(messages, `{"max_tokens":8000}`) // costs 812
	r.post(messages, `{"max_tokens":7000}`)
	select {
	case <-store.refused:
	default:
		t.Error("the second call was not refused at first, so this tests nothing")
	}
	r.spent(map[string]int64{"requests": 2, "output": 2 * 812})
}
