package meter_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// modelPrices are those of an upstream that charges by content.
const modelPrices = `
revision: 1
upstreams:
  model:
    hosts: [model.example.com]
    free:
      - {status: 304}
      - {status: 200, header: {X-Cached: "yes"}}
      - {header: X-Free-Output, pools: output}
      - {header: X-Free-Input, pools: input}
      - {header: X-Free-Requests, pools: [requests, input]}
    failed: free
    pools:
      requests: {quota: 100, windows: [{per: 10m}]}
      input:    {quota: 100000, windows: [{per: 10m}]}
      output:   {quota: 8000, windows: [{per: 10m}]}
      late:     {quota: 100000, windows: [{per: 10m}]}
    methods:
      messages.create:
        route: POST /v1/messages
        charge:
          requests: 1
          input:
            estimate: {bytes: body, per: 4, default: 500}
            actual: [{body: usage.input|message.usage.input}, {body: usage.cached, default: 0}]
          output:
            estimate: {body: max_tokens, default: 4096}
            actual: {body: usage.output}
      list:
        route: GET /v1/things/{kind}
        charge:
          requests: 1
          input:
            estimate: [{query: maxResults, per: 50, default: 1}, {path: kind, cases: {dear: 100}, default: 0}, {header: X-Extra, default: 0}]
            actual: [{count: data, times: 2}, {header: X-Spent, default: 0}]
      ping: {route: POST /v1/ping, charge: {requests: 1, late: 1}}
      tail:
        route: POST /v1/tail
        charge:
          late: {estimate: 100, actual: {body: usage.output}, counted: end}
      learn:
        route: POST /v1/learn
        charge:
          output: {estimate: {body: max_tokens, default: 6000, learn: p95, first: 2000}, actual: {body: usage.output}}
`

// newModel starts a rig of that upstream.
func newModel(t *testing.T, handler http.HandlerFunc, o *meter.Options) *rig {
	r := newRig(t, handler, nil)
	r.ledger = newLedger(t, modelPrices, r.clock)
	r.meter(o)
	return r
}

const messages = "http://model.example.com/v1/messages"

// flush waits for the settlements.
func (r *rig) flush() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.transport().Flush(ctx); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) transport() *meter.Transport { return r.client.Transport.(*meter.Transport) }

// spent checks what is used of the pools of the model.
func (r *rig) spent(want map[string]int64) {
	r.t.Helper()
	r.flush()
	for pool, units := range want {
		if got := r.used("model/" + pool); got != units {
			r.t.Errorf("%d units of %s are used, want %d", got, pool, units)
		}
	}
}

// post sends a call, and reads all of its answer.
func (r *rig) post(url, body string) string {
	r.t.Helper()
	_, text, err := r.do(r.t.Context(), "POST", url, body)
	if err != nil {
		r.t.Error(err)
	}
	return text
}

const usage = `{"id":"x","usage":{"input":12,"cached":3,"output":812}}`

func TestContentPrice(t *testing.T) {
	t.Run("the estimate is reserved, and settled to the actual", func(t *testing.T) {
		var r *rig
		var reserved, output int64
		r = newModel(t, func(w http.ResponseWriter, _ *http.Request) {
			reserved, output = r.used("model/input"), r.used("model/output")
			io.WriteString(w, usage)
		}, nil)
		body := fmt.Sprintf(`{"max_tokens":3000,"text":%q}`, strings.Repeat("x", 1000))
		if text := r.post(messages, body); text != usage {
			t.Errorf("the caller got %s", text)
		}
		if reserved != int64(len(body)+3)/4 || output != 3000 {
			t.Errorf("%d and %d were reserved", reserved, output)
		}
		r.spent(map[string]int64{"requests": 1, "input": 15, "output": 812})
	})
	t.Run("an estimate above the limit waits for the whole window and is not impossible", func(t *testing.T) {
		var r *rig
		var output int64
		r = newModel(t, func(w http.ResponseWriter, _ *http.Request) {
			output = r.used("model/output")
			io.WriteString(w, usage)
		}, nil)
		r.post(messages, `{"max_tokens":64000}`)
		if output != 8000 {
			t.Errorf("%d were reserved", output)
		}
		r.spent(map[string]int64{"output": 812})
		_, _, err := r.do(t.Context(), "POST", messages, `{"max_tokens":64000}`)
		if e := refused(t, err); e.Units != 8000 || e.Pool.Name != "output" {
			t.Errorf("%v", e)
		}
	})
	t.Run("query, path, header and count", func(t *testing.T) {
		var r *rig
		var input int64
		r = newModel(t, func(w http.ResponseWriter, _ *http.Request) {
			input = r.used("model/input")
			w.Header().Set("X-Spent", "1.5")
			io.WriteString(w, `{"data":[{},{},{}]}`)
		}, nil)
		req, _ := http.NewRequest("GET", "http://model.example.com/v1/things/dear?maxResults=120", nil)
		req.Header.Set("X-Extra", "7")
		if _, _, err := r.send(req); err != nil {
			t.Fatal(err)
		}
		if input != 3+100+7 {
			t.Errorf("%d were reserved", input)
		}
		r.spent(map[string]int64{"input": 8, "requests": 1})
	})
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   int64 // of output, of 4,096 reserved
	}{
		"a value is missing":          {200, nil, `{"usage":{"input":12}}`, 4096},
		"it is no JSON":               {200, nil, `<html>`, 4096},
		"it is negative":              {200, nil, `{"usage":{"input":1,"output":-5}}`, 4096},
		"it is beyond all numbers":    {200, nil, `{"usage":{"input":1,"output":1e308}}`, 4096},
		"it is a number in quotes":    {200, nil, `{"usage":{"input":1,"output":"12"}}`, 12},
		"it is a fraction":            {200, nil, `{"usage":{"input":1,"output":11.2}}`, 12},
		"it is more than the limit":   {200, nil, `{"usage":{"input":1,"output":9000}}`, 9000},
		"deep nesting":                {200, nil, strings.Repeat("[", 1<<20), 4096},
		"brotli":                      {200, http.Header{"Content-Encoding": {"br"}}, usage, 4096},
		"a refusal without a body":    {400, nil, "", 4096},
		"an answer without a body":    {204, nil, "", 4096},
		"not modified is free":        {304, nil, "", 0},
		"a header says it is free":    {200, http.Header{"X-Cached": {"yes"}}, usage, 0},
		"it is free in the pool":      {200, http.Header{"X-Free-Input": {""}, "X-Free-Output": {""}}, usage, 0},
		"it is free in other pools":   {200, http.Header{"X-Free-Input": {""}}, usage, 812},
		"what fails is free":          {503, nil, usage, 0},
		"an error that tells its use": {400, nil, usage, 812},
	} {
		t.Run(name, func(t *testing.T) {
			r := newModel(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}, nil)
			if text := r.post(messages, `{}`); text != c.body && c.status != 204 && c.status != 304 {
				t.Errorf("the caller got %.80q", text)
			}
			r.spent(map[string]int64{"output": c.want})
		})
	}
	t.Run("a fixed price is free in some pools", func(t *testing.T) {
		r := newModel(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Free-Requests", "") }, nil)
		r.post("http://model.example.com/v1/ping", "")
		r.spent(map[string]int64{"requests": 0, "late": 1})
	})
	t.Run("closed when the JSON is read, before its end", func(t *testing.T) {
		r := newModel(t, func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, usage)
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}, nil)
		resp, err := r.client.Post(messages, "", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(resp.Body, make([]byte, len(usage)))
		resp.Body.Close()
		resp.Body.Close()
		r.spent(map[string]int64{"output": 812})
	})
	t.Run("cut, or never read, or never closed: the estimate stands", func(t *testing.T) {
		r := newModel(t, func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("X-Cut") != "" {
				w.Header().Set("Content-Length", "100")
				io.WriteString(w, usage[:len(usage)-1])
				return
			}
			io.WriteString(w, usage)
		}, nil)
		req, _ := http.NewRequest("POST", messages, strings.NewReader(`{"max_tokens":1}`))
		req.Header.Set("X-Cut", "1")
		if _, _, err := r.send(req); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		r.spent(map[string]int64{"output": 1})
		for _, end := range []func(*http.Response){func(resp *http.Response) { resp.Body.Close() }, func(*http.Response) {}} {
			resp, err := r.client.Post(messages, "", strings.NewReader(`{"max_tokens":10}`)) //nolint:bodyclose // left open on purpose
			if err != nil {
				t.Fatal(err)
			}
			end(resp)
		}
		r.spent(map[string]int64{"output": 21, "requests": 3})
	})
	t.Run("no connection: nothing", func(t *testing.T) {
		r := newModel(t, nil, nil)
		r.server.Close()
		if _, _, err := r.do(t.Context(), "POST", messages, "{}"); err == nil {
			t.Fatal("there is a server")
		}
		r.spent(map[string]int64{"output": 0, "input": 0, "requests": 0})
	})
	t.Run("each redirect is a call", func(t *testing.T) {
		var n atomic.Int64
		r := newModel(t, func(w http.ResponseWriter, req *http.Request) {
			if n.Add(1) == 1 {
				http.Redirect(w, req, messages, http.StatusTemporaryRedirect)
				return
			}
			io.WriteString(w, usage)
		}, nil)
		r.post(messages, `{"max_tokens":50}`)
		r.spent(map[string]int64{"requests": 2, "output": 50 + 812})
	})
	t.Run("gzip that the caller asked for", func(t *testing.T) {
		r := newModel(t, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, usage)
			z.Close()
		}, nil)
		for _, asks := range []string{"gzip", ""} { // else net/http asks, and decodes
			req, _ := http.NewRequest("POST", messages, strings.NewReader("{}"))
			if asks != "" {
				req.Header.Set("Accept-Encoding", asks)
			}
			if _, _, err := r.send(req); err != nil {
				t.Fatal(err)
			}
		}
		r.spent(map[string]int64{"output": 2 * 812})
	})
}

// A stream's events come to the caller before the server goes on.
func TestContentOfAStream(t *testing.T) {
	seen := make(chan struct{})
	r := newModel(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"type":"message_start","message":{"usage":{"input":25,"output":1}}}`,
			`{"type":"delta","text":"hello"}`,
			`{"type":"message_delta","usage":{"output":15}}`,
		} {
			io.WriteString(w, "event: x\ndata: "+event+"\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-seen:
			case <-req.Context().Done():
				return
			}
		}
	}, nil)
	resp, err := r.client.Post(messages, "", strings.NewReader(`{"max_tokens":100}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	chunk, text := make([]byte, 4096), ""
	for n := 1; n <= 3; n++ {
		for strings.Count(text, "\n\n") < n {
			m, err := resp.Body.Read(chunk)
			if text += string(chunk[:m]); err != nil {
				t.Fatal(err)
			}
		}
		r.spent(map[string]int64{"output": 100})
		seen <- struct{}{}
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	r.spent(map[string]int64{"output": 15, "input": 25})
}

// A request's body decides what is reserved, and is sent whole.
func TestContentOfARequest(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", 100<<10) + `","max_tokens":50}`
	for name, c := range map[string]struct {
		body func() io.Reader
		want int64
	}{
		"a body that can be had again": {func() io.Reader { return strings.NewReader(long) }, 50},
		"a short one that cannot":      {func() io.Reader { return io.MultiReader(strings.NewReader(`{"max_tokens":50}`)) }, 50},
		"a long one that cannot":       {func() io.Reader { return io.MultiReader(strings.NewReader(long)) }, 50},
		"one that is no JSON":          {func() io.Reader { return strings.NewReader("hello") }, 4096},
		"none":                         {func() io.Reader { return nil }, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			var reserved int64
			var got string
			r = newModel(t, func(_ http.ResponseWriter, req *http.Request) {
				text, _ := io.ReadAll(req.Body)
				reserved, got = r.used("model/output"), string(text)
			}, nil)
			req, _ := http.NewRequest("POST", messages, c.body())
			if _, _, err := r.send(req); err != nil {
				t.Fatal(err)
			}
			var want []byte
			if body := c.body(); body != nil {
				want, _ = io.ReadAll(body)
			}
			if reserved != c.want || got != string(want) {
				t.Errorf("%d reserved, want %d; the server got %d bytes of %d", reserved, c.want, len(got), len(want))
			}
		})
	}
	t.Run("a body that never comes ends with its caller", func(t *testing.T) {
		r := newModel(t, nil, nil)
		in, out := io.Pipe()
		defer out.Close()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			io.WriteString(out, "{")
			cancel()
		}()
		req, _ := http.NewRequestWithContext(ctx, "POST", messages, in)
		if _, _, err := r.send(req); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		r.spent(map[string]int64{"requests": 0})
	})
}

// Net/http repeats a request on a dead connection: the server may have counted each.
func TestContentOfARepeat(t *testing.T) {
	r := newModel(t, nil, nil)
	s := startDeadConn(t)
	r.base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Addr().String())
	}
	defer r.base.CloseIdleConnections() // or the server waits for more
	for range 2 {                       // the second is read by the server, not answered, and sent again
		req, _ := http.NewRequest("GET", "http://model.example.com/v1/things/dear", nil)
		if _, _, err := r.send(req); err != nil {
			t.Fatal(err)
		}
	}
	r.spent(map[string]int64{"requests": 3, "input": 3 * 101}) // the answers tell nothing
}

// A function prices what YAML cannot express.
func TestPriceFunctions(t *testing.T) {
	var reserved int64
	var r *rig
	r = newModel(t, func(w http.ResponseWriter, _ *http.Request) {
		reserved = r.used("model/output")
		io.WriteString(w, "twenty")
	}, &meter.Options{
		Price: map[string]meter.PriceFunc{"model": func(req *http.Request, method string) (quota.Units, error) {
			text, err := io.ReadAll(req.Body)
			if string(text) == "bad" {
				return nil, errors.New("a bad text")
			}
			return quota.Units{"output": int64(len(text))}, err
		}},
		Actual: map[string]meter.ActualFunc{"model": func(*http.Response, string) meter.Cost { return &words{} }},
	})
	r.post(messages, "hello")
	if reserved != 5 {
		t.Errorf("%d were reserved", reserved)
	}
	r.spent(map[string]int64{"output": 20, "requests": 1})
	if _, _, err := r.do(t.Context(), "POST", messages, "bad"); err == nil || !strings.Contains(err.Error(), "price messages.create: a bad text") {
		t.Errorf("error %v", err)
	}
	r.spent(map[string]int64{"requests": 1})
}

// words knows a number by its name.
type words struct{ text string }

func (w *words) Write(p []byte) (int, error) {
	w.text += string(p)
	return len(p), nil
}

func (w *words) Units(whole bool) quota.Units {
	if whole && w.text == "twenty" {
		return quota.Units{"output": 20, "other": 7}
	}
	return nil
}

// The estimate follows what calls have cost, and never passes what the request bounds.
func TestLearnedPrice(t *testing.T) {
	var r *rig
	var reserved int64
	handler := func(w http.ResponseWriter, _ *http.Request) {
		reserved = r.used("model/output")
		io.WriteString(w, `{"usage":{"output":100}}`)
	}
	r = newModel(t, handler, nil)
	const url = "http://model.example.com/v1/learn"
	call := func(body string, least, most int64) {
		t.Helper()
		r.clock.Advance(time.Hour)
		reserved = -1
		if r.post(url, body); reserved < least || reserved > most {
			t.Errorf("%d were reserved, want %d to %d", reserved, least, most)
		}
		r.flush()
	}
	for range 20 {
		call(`{"max_tokens":6000}`, 2000, 2000)
	}
	call(`{"max_tokens":6000}`, 100, 110)
	call(`{"max_tokens":50}`, 50, 50)
	call(`{}`, 100, 110)
}

// A fixed price costs no more than it did before prices could depend on the content.
func TestFixedPriceAllocates(t *testing.T) {
	l := newLedger(t, strings.ReplaceAll(prices, "quota: 100,", "quota: 1000000,"), quota.NewSimClock(noon))
	answer := &http.Response{StatusCode: 200, Body: http.NoBody}
	m := newTransport(t, l, &meter.Options{Logger: discard, Base: roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil })})
	req, _ := http.NewRequest("GET", items, nil)
	const before = 6
	n := 0.0
	for range 1000 { // until the limits that were set at run time are read, which goes on beside the calls
		if n = testing.AllocsPerRun(1000, func() { m.RoundTrip(req) }); n <= before { //nolint:bodyclose // there is none
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%v allocations, want %d", n, before)
}
