package meter_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// fewAtOnce are the prices of an upstream that takes two calls at a time, and counts some
// of them when they end.
const fewAtOnce = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    free: [{status: 304}]
    pools:
      calls: {windows: [{in_flight: 2, ttl: 10m}]}
      units: {quota: 1000, windows: [{per: 10m}]}
    methods:
      get: {route: GET /get, charge: {calls: 1}}
      chat: {route: POST /chat, charge: {calls: 1, units: {estimate: 100, actual: {body: usage}}}}
      late: {route: POST /late, charge: {units: {estimate: 100, actual: {body: usage}, counted: end}}}
`

func startFew(t *testing.T, handler http.HandlerFunc) *rig {
	r := newRig(t, handler, nil)
	r.ledger = newLedger(t, fewAtOnce, r.clock)
	r.meter(nil)
	return r
}

// A call holds its slot until its answer has ended.
func TestASlotIsHeldUntilTheAnswerEnds(t *testing.T) {
	const text = `{"usage": 7, "text": "hello"}`
	ends := map[string]func(*http.Response){
		"at the end":  func(resp *http.Response) { io.Copy(io.Discard, resp.Body) },
		"when closed": func(resp *http.Response) { resp.Body.Close() },
		"once":        func(resp *http.Response) { io.Copy(io.Discard, resp.Body); resp.Body.Close(); resp.Body.Close() },
	}
	for name, end := range ends {
		for method, url := range map[string]string{"GET": "http://api.example.com/get", "POST": "http://api.example.com/chat"} {
			t.Run(name+" "+method, func(t *testing.T) {
				r := startFew(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
				var open []*http.Response
				call := func() error {
					req, _ := http.NewRequestWithContext(t.Context(), method, url, nil)
					resp, err := r.client.Do(req) //nolint:bodyclose // closed below
					if err == nil {
						open = append(open, resp) //nolint:bodyclose // closed below
					}
					return err
				}
				if err := errors.Join(call(), call()); err != nil {
					t.Fatal(err)
				}
				for _, resp := range open { // all but the last byte
					if _, err := io.ReadFull(resp.Body, make([]byte, len(text)-1)); err != nil {
						t.Fatal(err)
					}
				}
				r.flush()
				if e := refused(t, call()); e.Pool.Name != "calls" {
					t.Errorf("%v, want no slot left", e)
				}
				end(open[0])
				if r.flush(); r.used("api/calls") != 1 {
					t.Errorf("%d slots are taken, want that of the other call", r.used("api/calls"))
				}
				if err := call(); err != nil {
					t.Errorf("a call with a slot: %v", err)
				}
				for _, resp := range open[1:] {
					resp.Body.Close()
				}
				if r.flush(); r.used("api/calls") != 0 {
					t.Errorf("%d slots are taken at the end", r.used("api/calls"))
				}
			})
		}
	}
	t.Run("without an answer", func(t *testing.T) {
		r := startFew(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for range 5 {
			if _, _, err := r.do(t.Context(), "POST", "http://api.example.com/chat", "{}"); err == nil || errors.Is(err, quota.ErrRefused) {
				t.Errorf("error %v, want that of the connection", err)
			}
			r.flush()
		}
		r.server.Close() // not even a connection
		for range 5 {
			if _, _, err := r.do(t.Context(), "GET", "http://api.example.com/get", ""); err == nil || errors.Is(err, quota.ErrRefused) {
				t.Errorf("error %v, want that of the connection", err)
			}
		}
		if r.flush(); r.used("api/calls") != 0 || r.used("api/units") != 500 {
			t.Errorf("%d slots and %d units are taken", r.used("api/calls"), r.used("api/units"))
		}
	})
	t.Run("without a body, and free", func(t *testing.T) {
		status := http.StatusNoContent
		r := startFew(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		for _, status = range []int{204, 304, 204} {
			if _, _, err := r.do(t.Context(), "POST", "http://api.example.com/chat", "{}"); err != nil {
				t.Fatal(err)
			}
			r.flush()
		}
		if r.used("api/calls") != 0 || r.used("api/units") != 200 {
			t.Errorf("%d slots and %d units are taken", r.used("api/calls"), r.used("api/units"))
		}
	})
}

// A call whose context was cancelled is over, also if nobody closes its body. Its units stay charged.
func TestACancelledCallGivesItsSlotBack(t *testing.T) {
	r := startFew(t, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, `{"usage"`)
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	})
	for _, url := range []string{"/get", "/chat"} {
		method := map[string]string{"/get": "GET", "/chat": "POST"}[url]
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, method, "http://api.example.com"+url, nil)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		for i := 0; r.used("api/calls") > 0; i++ {
			if i == 10_000 {
				t.Fatalf("%s: its slot is still taken", url)
			}
			time.Sleep(time.Millisecond)
		}
		resp.Body.Close() // later than that
		r.flush()
	}
	if r.used("api/calls") != 0 || r.used("api/units") != 100 {
		t.Errorf("%d slots and %d units are taken, want the units of one call", r.used("api/calls"), r.used("api/units"))
	}
}

// Nobody closes this body, and its context never ends. The slot is given back after its ttl without
// a read. A caller that waits in a read keeps it for as long as that takes.
func TestABodyThatNobodyReadsGivesItsSlotBack(t *testing.T) {
	more := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		io.WriteString(w, `{"usage"`)
		w.(http.Flusher).Flush()
		next := more
		if req.URL.RawQuery == "idle" {
			next = nil
		}
		select {
		case <-next:
			io.WriteString(w, `: 7}`)
		case <-req.Context().Done():
		}
	}, nil)
	r.ledger = newLedger(t, strings.ReplaceAll(fewAtOnce, "ttl: 10m", "ttl: 1s"), quota.SystemClock{})
	r.meter(nil)
	await := func(what string, slots int64) {
		t.Helper()
		for i := 0; r.used("api/calls") != slots; i++ {
			if i == 60_000 {
				t.Fatalf("%s: %d slots are taken, want %d", what, r.used("api/calls"), slots)
			}
			time.Sleep(time.Millisecond)
		}
	}
	for method, url := range map[string]string{"GET": "/get", "POST": "/chat"} {
		req, _ := http.NewRequestWithContext(context.Background(), method, "http://api.example.com"+url+"?idle", nil)
		idle, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Body.Close()
		req = req.Clone(req.Context())
		req.URL.RawQuery = ""
		reading, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer reading.Body.Close()
		ended := make(chan error, 1)
		go func(body io.Reader) {
			_, err := io.Copy(io.Discard, body)
			ended <- err
		}(reading.Body)
		await("the body that nobody reads", 1)
		time.Sleep(1500 * time.Millisecond) // longer than a ttl
		if n := r.used("api/calls"); n != 1 {
			t.Errorf("%s: %d slots are taken while a caller waits in a read, want its own", url, n)
		}
		more <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		reading.Body.Close()
		await("the body that was read", 0)
	}
}

// panicking is a base transport that panics, before or after it has a connection.
type panicking struct{ connects bool }

func (p *panicking) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	if trace.GetConn("api.example.com"); p.connects {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	panic("no")
}

// A base transport that panics ends its call. The units come back only if nothing can have been sent.
func TestAPanicGivesTheSlotBack(t *testing.T) {
	for _, connects := range []bool{false, true} {
		r := startFew(t, nil)
		m, err := meter.New(r.ledger, &meter.Options{Base: &panicking{connects}})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() != "no" {
					t.Error("the panic is swallowed")
				}
			}()
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://api.example.com/chat", strings.NewReader("{}"))
			m.RoundTrip(req) //nolint:bodyclose // there is none
		}()
		want := int64(0)
		if connects {
			want = 100
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if r.used("api/calls") != 0 || r.used("api/units") != want {
			t.Errorf("connected %t: %d slots and %d units are taken, want none and %d", connects, r.used("api/calls"), r.used("api/units"), want)
		}
	}
}

// A connection that has changed its protocol is in flight until it is closed.
func TestASlotOfAnUpgradedConnection(t *testing.T) {
	r := startFew(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		io.WriteString(rw, line)
		rw.Flush()
	})
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://api.example.com/get", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := r.client.Do(req) //nolint:bodyclose // the test closes it
	if err != nil {
		t.Fatal(err)
	}
	conn, is := resp.Body.(io.ReadWriteCloser)
	if !is {
		t.Fatalf("%T cannot be written to", resp.Body)
	}
	io.WriteString(conn, "hello\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	if r.flush(); r.used("api/calls") != 1 {
		t.Errorf("%d slots are taken while it is open", r.used("api/calls"))
	}
	conn.Close()
	if r.flush(); r.used("api/calls") != 0 {
		t.Errorf("%d slots are taken after it", r.used("api/calls"))
	}
}

// Units of counted: end move from the start of a call to its end.
func TestUnitsCountWhenTheCallEnds(t *testing.T) {
	r := startFew(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"usage": 30}`) })
	for _, tells := range []bool{true, false} { // also if the answer is not read
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://api.example.com/late", nil)
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		began := r.used("api/units")
		r.clock.Advance(8 * time.Minute)
		if tells {
			io.Copy(io.Discard, resp.Body)
		}
		resp.Body.Close()
		r.flush()
		units := map[bool]int64{true: 30, false: 100}[tells]
		if got := r.used("api/units"); began != 100 || got != units {
			t.Errorf("%d units before, %d after, want 100 and %d", began, got, units)
		}
		r.clock.Advance(8 * time.Minute) // 16 since it began
		if got := r.used("api/units"); got != units {
			t.Errorf("%d units 8 minutes after the end, want %d", got, units)
		}
		r.clock.Advance(5 * time.Minute)
		if got := r.used("api/units"); got != 0 {
			t.Errorf("%d units 13 minutes after the end", got)
		}
	}
}

// Two transports share what their calls have cost.
func TestTwoTransportsShareTheLedger(t *testing.T) {
	a := startFew(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"usage": 450}`) })
	b, store := *a, newStore(a.clock)
	for _, r := range []*rig{a, &b} {
		var err error
		if r.ledger, err = quota.New(a.ledger.Book(), store, &quota.Options{Clock: a.clock}); err != nil {
			t.Fatal(err)
		}
		r.meter(nil)
	}
	if text := a.post("http://api.example.com/late", "{}") + b.post("http://api.example.com/late", "{}"); len(text) != 2*len(`{"usage": 450}`) {
		t.Error(text)
	}
	a.flush()
	b.flush()
	if a.used("api/units") != 900 || b.used("api/units") != 900 {
		t.Errorf("%d and %d units", a.used("api/units"), b.used("api/units"))
	}
	for range 2 { // one more estimate of 100 fits, as its answer is not read
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://api.example.com/late", nil)
		resp, err := b.client.Do(req)
		if err == nil {
			defer resp.Body.Close()
			continue
		}
		if e := refused(t, err); e.Used != 1000 {
			t.Errorf("%v", e)
		}
		return
	}
	t.Error("1,100 units of 1,000 were granted")
}
