package meter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

// stopped is a store that shuts and settles nothing until it goes on.
type stopped struct {
	quota.Store
	goesOn chan struct{}
}

func (s *stopped) Block(ctx context.Context, b quota.BlockRequest) error {
	<-s.goesOn
	return s.Store.Block(ctx, b)
}

func (s *stopped) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	<-s.goesOn
	return s.Store.Settle(ctx, t, units)
}

// An answer is read while the ledger hangs. The next call waits until what the answer said
// is in the ledger.
func TestNoByteWaitsForTheLedger(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"error": "THROTTLED", "n": 3}`) }, nil)
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [{status: 200, body: THROTTLED, for: 1m}]
    pools: {units: {quota: 100, windows: [{per: 1h}]}}
    methods: {get: {route: GET /get, pool: units, cost: {estimate: 9, actual: {body: n}}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &stopped{memstore.New(&memstore.Options{Clock: r.clock}), make(chan struct{})}
	if r.ledger, err = quota.New(costs, store, &quota.Options{Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	r.meter(nil)
	get := func(ctx context.Context) (string, error) {
		_, text, err := r.do(ctx, "GET", "http://api.example.com/get", "")
		return text, err
	}
	if text, err := get(t.Context()); err != nil || !strings.Contains(text, "THROTTLED") { // it hangs if it waits
		t.Fatalf("the caller got %q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the next call, given up: %v", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { close(store.goesOn) })
	if _, err := get(t.Context()); !errors.Is(err, quota.ErrBlocked) {
		t.Errorf("the next call: %v", err)
	}
	r.flush()
	if used := r.used("api/units"); used != 3 {
		t.Errorf("%d units are used, want 3", used)
	}
}

// A call whose answer is free has its slot until the answer ends, as any other.
func TestTheSlotOfAFreeAnswer(t *testing.T) {
	more := make(chan struct{})
	r := priced(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    failed: free
    pools:
      at_once: {windows: [{in_flight: 2}]}
      units: {quota: 100, windows: [{per: 1h}]}
    methods: {get: {route: GET /get, charge: {at_once: 1, units: 10}}}
`, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, "sorry")
	})
	resp, err := r.client.Get("http://api.example.com/get")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r.flush()
	if slots := r.used("api/at_once"); slots != 1 {
		t.Errorf("%d slots are taken while the answer comes", slots)
	}
	close(more)
	if text, err := io.ReadAll(resp.Body); string(text) != "sorry" || err != nil {
		t.Errorf("the caller got %q, %v", text, err)
	}
	r.flush()
	if slots, units := r.used("api/at_once"), r.used("api/units"); slots != 0 || units != 0 {
		t.Errorf("%d slots and %d units are used in the end", slots, units)
	}
}

// A body in gzip that nobody reads leaves no decoder behind.
func TestNoDecoderIsLeftBehind(t *testing.T) {
	for name, call := range map[string]func(*rig){
		"an answer without a body": func(r *rig) {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://api.example.com/get", nil)
			req.Header.Set("Accept-Encoding", "gzip") // so net/http leaves it alone
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		},
		"a request that its caller gives up": func(r *rig) {
			ctx, cancel := context.WithCancel(t.Context())
			body, to := io.Pipe()
			go func() {
				to.Write([]byte("\x1f"))
				cancel()
			}()
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://api.example.com/post", body)
			req.Header.Set("Content-Encoding", "gzip")
			if resp, err := r.client.Do(req); err == nil {
				resp.Body.Close()
				t.Error("it was answered")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(reports("{pool: core, remaining: {body: left}}"), "methods: {", "methods: {post: {route: POST /post, pool: core, cost: {estimate: {body: n, default: 1}}}, ", 1)
			r := priced(t, text, answering(200, "", "Content-Encoding", "gzip"))
			call(r)
			before := runtime.NumGoroutine()
			for range 50 {
				call(r)
			}
			for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+10; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
				}
			}
		})
	}
}

// One that is read a bit and forgotten does not either.
func TestNoDecoderOfAForgottenAnswerIsLeft(t *testing.T) {
	for name, text := range map[string]string{
		"report":  reports("{pool: core, remaining: {body: left}}"),
		"refusal": strings.Replace(reports(""), "refusals: [", "refusals: [{status: 200, body: THROTTLED, for: 1m}, ", 1),
	} {
		t.Run(name, func(t *testing.T) {
			r := priced(t, text, nil)
			r.meter(&meter.Options{Base: roundTrip(func(*http.Request) (*http.Response, error) {
				h := http.Header{"Content-Encoding": {"gzip"}}
				return &http.Response{StatusCode: 200, Header: h, ContentLength: -1, Body: io.NopCloser(strings.NewReader(zipped("hello")))}, nil
			})})
			before := runtime.NumGoroutine()
			for range 50 {
				resp, err := r.client.Get("http://api.example.com/get") //nolint:bodyclose // that is the case
				if err != nil {
					t.Fatal(err)
				}
				_, _ = resp.Body.Read(make([]byte, 12))
			}
			for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+10; time.Sleep(time.Millisecond) {
				if runtime.GC(); time.Now().After(end) {
					t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
				}
			}
		})
	}
}
