package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/places"
	"github.com/headroom-quota/headroom/quota"
)

// asks is a price book in which the body has the price and the key. It takes the place of ownPrices.
const asks = `    api_key: {header: Authorization, pass: true}
    request_buffer: 2097152
    pools:
      units: {quota: 1000000, windows: [{per: day}]}
      models: {quota: 10, windows: [{per: day}], by: {body: model, default: other}}
    methods:
      list: {route: GET /v1/items, pool: units, cost: 2}
      ask: {route: POST /v1/ask, charge: {models: 1, units: {estimate: {body: max, default: 100}}}}
      put: {route: PUT /v1/ask, charge: {units: 1}}
`

func askRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	o.asks = true
	o.grants = []Grant{{Upstreams: []string{"own"}}, {Upstreams: []string{"own"}}}
	return newRig(t, o)
}

func (r *rig) usedOf(pool string) int64 {
	r.t.Helper()
	all, err := r.ledger.View().Usage(context.Background(), "own", quota.DefaultAccount)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, u := range all {
		if u.Pool.String() == "own/"+pool {
			return u.Windows[0].Used
		}
	}
	return 0
}

// TestLongBodies: the price and the key of a call are read wherever they stand. A body that is
// too long for that is refused with the reason, and one that costs a fixed price is not read.
func TestLongBodies(t *testing.T) {
	pad := strings.Repeat("x", 3<<19)
	for name, c := range map[string]struct {
		verb, body string
		header     []string
		status     int
		models     string
		units      int64
		unsized    bool
	}{
		"the end of a long body":   {"POST", `{"text":"` + pad + `","model":"big","max":90000}`, nil, 200, "models:big", 90000, false},
		"one of an unknown length": {"POST", `{"text":"` + pad + `","model":"big","max":90000}`, nil, 200, "models:big", 90000, true},
		"too long":                 {"POST", `{"text":"` + pad + pad + `","model":"big","max":90000}`, nil, 413, "models:big", 0, false},
		"too long, unknown length": {"POST", `{"text":"` + pad + pad + `","model":"big","max":90000}`, nil, 413, "models:big", 0, true},
		"long, at a fixed price":   {"PUT", `{"text":"` + pad + pad + `","model":"big","max":90000}`, nil, 200, "models:big", 1, false},
		"two prices":               {"POST", `{"model":"big","max":90000,"max":1}`, nil, 200, "models:big", 90000, false},
		"two keys":                 {"POST", `{"model":"big","model":"small"}`, nil, 400, "models:big", 0, false},
		"brotli":                   {"POST", `{"model":"big"}`, []string{"Content-Encoding", "br"}, 400, "models:other", 0, false},
		"events":                   {"POST", `{"model":"big"}`, []string{"Content-Type", "text/event-stream"}, 200, "models:big", 100, false},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				r := askRig(t, rigOptions{})
				var body io.Reader = strings.NewReader(c.body)
				if c.unsized {
					body = io.NopCloser(body)
				}
				req := r.request(c.verb, "/own/v1/ask", body, append([]string{"Headroom-Token", theToken}, c.header...)...)
				client := *still
				if protocol == "HTTP/2.0" {
					client.Transport = r.http2()
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || resp.Proto != protocol || c.status == 413 && !strings.Contains(string(text), "request_buffer") ||
					c.status >= 400 && resp.Header.Get("Headroom-Refused") != "body" {
					t.Errorf("%s %s %q %.300s", resp.Proto, resp.Status, resp.Header, text)
				}
				if sent := r.seen(); (sent != nil) != (c.status == 200) || sent != nil && r.body != c.body {
					t.Errorf("sent %v, %d bytes of %d", sent != nil, len(r.body), len(c.body))
				}
				models := int64(0)
				if c.status == 200 && c.verb == "POST" {
					models = 1
				}
				if got := r.usedOf(c.models); got != models {
					t.Errorf("%d of %s", got, c.models)
				}
				if got := r.usedOf("units"); got != c.units {
					t.Errorf("%d units", got)
				}
				if free := r.handler.bodies.Free(); free != mostKept {
					t.Errorf("%d bytes are kept", mostKept-free)
				}
			})
		}
	}
}

// TestABodyIsKeptUntilItIsClosed: a transport may close it twice, and while its price is read.
func TestABodyIsKeptUntilItIsClosed(t *testing.T) {
	h := askRig(t, rigOptions{}).handler
	c := &call{token: tokensOf(t, Grant{})[0]}
	c.out.ReadCloser = http.NoBody
	req := httptest.NewRequestWithContext(context.WithValue(t.Context(), callKey{}, c), "POST", "/", nil)
	if err := h.keep(req, 5); err != nil || h.bodies.Free() != mostKept-5 {
		t.Errorf("%v, %d bytes are free", err, h.bodies.Free())
	}
	for range 2 {
		if err := c.out.Close(); err != nil || h.bodies.Free() != mostKept {
			t.Errorf("closed: %v, %d bytes are free", err, h.bodies.Free())
		}
	}
	if err := h.keep(req, 5); !errors.Is(err, http.ErrBodyReadAfterClose) || h.bodies.Free() != mostKept {
		t.Errorf("after it is closed: %v, %d bytes are free", err, h.bodies.Free())
	}
}

// TestKeptBodiesAreBounded: what the proxy keeps of bodies has a bound, and a token leaves room
// for the others. A body that has arrived at the upstream takes none, however long the answer.
func TestKeptBodiesAreBounded(t *testing.T) {
	answer := make(chan struct{})
	r := askRig(t, rigOptions{serve: func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = http.NewResponseController(w).Flush()
		<-answer
	}})
	defer close(answer)
	const room = 2 << 20 // a body of the test takes a quarter
	r.handler.bodies = places.New[string](room)
	begin := func(token string) (end *io.PipeWriter, got chan int) { // sends half of a body
		from, to := io.Pipe()
		got = make(chan int, 1)
		req := r.request("POST", "/own/v1/ask", from, "Headroom-Token", token)
		go func() {
			resp, err := still.Do(req)
			if err != nil {
				got <- 0
				return
			}
			got <- resp.StatusCode
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}()
		_, _ = to.Write(append([]byte(`{"text":"`), bytes.Repeat([]byte("x"), 300<<10)...))
		return to, got
	}
	var ends []*io.PipeWriter
	var answers []chan int
	for i, token := range []string{theToken, theToken, strings.Repeat("1", 32)} {
		end, got := begin(token)
		ends, answers = append(ends, end), append(answers, got)
		until(t, "it is kept", func() bool { return r.handler.bodies.Free() < room-int64(i+1)*(500<<10) })
		if i != 1 {
			continue
		}
		_, third := begin(token)
		if status := <-third; status != http.StatusTooManyRequests {
			t.Errorf("a third body of the token: %d", status)
		}
	}
	for _, end := range ends {
		_, _ = io.WriteString(end, `","model":"big"}`)
		_ = end.Close()
	}
	for _, got := range answers {
		if status := <-got; status != http.StatusOK {
			t.Errorf("the others: %d", status)
		}
	}
	until(t, "no body is kept, while all answers are open", func() bool { return r.handler.bodies.Free() == room })
}
