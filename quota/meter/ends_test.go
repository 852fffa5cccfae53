package meter_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// waitedFor is a context that never ends, and knows how many functions wait for its end.
type waitedFor struct {
	context.Context
	done  chan struct{}
	mu    sync.Mutex
	waits int
}

func (w *waitedFor) Done() <-chan struct{} { return w.done }

func (w *waitedFor) AfterFunc(func()) (stop func() bool) {
	w.count(1)
	return sync.OnceValue(func() bool {
		w.count(-1)
		return true
	})
}

func (w *waitedFor) count(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits += n
	return w.waits
}

// A call leaves nothing behind that waits for the end of its context, which may be the end of the program.
func TestACallLeavesNothingAtItsContext(t *testing.T) {
	r := newRig(t, nil, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools: {open: {quota: 5, windows: [{in_flight: 5, ttl: 1m}]}, tokens: {quota: 1000, windows: [{per: 1h}]}}
    methods: {ask: {route: POST /ask, charge: {open: 1, tokens: {estimate: {body: max, default: 9}, actual: {body: used}}}}}
`, r.clock)
	r.meter(&meter.Options{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"used": 3}`)), Request: req}, nil
	})})
	ctx := &waitedFor{Context: context.WithoutCancel(t.Context()), done: make(chan struct{})}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/ask", io.NopCloser(strings.NewReader(`{"max": 9}`)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if ctx.count(0) == 0 {
		t.Error("nothing gives the slot back if the caller goes away")
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if n := ctx.count(0); n != 0 {
		t.Errorf("%d functions wait for the end of the context", n)
	}
	if r.used("api/tokens") != 3 || r.used("api/open") != 0 {
		t.Errorf("%d tokens and %d slots are used", r.used("api/tokens"), r.used("api/open"))
	}
}

// A record has what calls were charged: what they reserved, and then what they cost.
func TestCallsAreRecorded(t *testing.T) {
	var sent func()
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		sent()
		_, _ = io.WriteString(w, `{"used": 4}`)
	}, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools: {tokens: {quota: 1000, windows: [{per: 1h}]}}
    methods: {ask: {route: GET /ask, pool: tokens, cost: {estimate: {query: max, default: 9}, actual: {body: used}}}}
`, r.clock)
	r.base.DisableKeepAlives = true
	r.meter(nil)
	ctx, record := charged.With(t.Context())
	tokens := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "tokens"}
	want := func(when string, n int64) {
		t.Helper()
		if got := record.Units(); !maps.Equal(got, map[quota.Pool]int64{tokens: n}) {
			t.Errorf("%s: %v, want %d", when, got, n)
		}
	}
	sent = func() { want("sent", 9) }
	if _, _, err := r.do(ctx, "GET", "https://api.example.com/ask?max=9", ""); err != nil {
		t.Fatal(err)
	}
	r.flush()
	want("settled", 4)
	r.dial(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") })
	r.meter(nil)
	if _, _, err := r.do(ctx, "GET", "https://api.example.com/ask?max=9", ""); err == nil {
		t.Error("a call was sent without a connection")
	}
	want("given back", 4)
}

// A function may price calls whose price in the book is fixed.
func TestAPriceFunctionOfAFixedPrice(t *testing.T) {
	r := newRig(t, nil, &meter.Options{Price: map[string]meter.PriceFunc{"api": func(*http.Request, string) (quota.Units, error) { return quota.Units{"units": 7}, nil }}})
	r.get("https://api.example.com/v1/items")
	r.charged(7)
}

// Units that were spent elsewhere count in a budget, and in the one that it is a part of.
func TestABudgetCountsWhatWasSpentElsewhere(t *testing.T) {
	whole := meter.NewBudget(12)
	part := whole.Part()
	part.Add(5)
	if part.Spent() != 5 || whole.Spent() != 5 || len(part.Pools()) != 0 {
		t.Errorf("%d, %d in all, by pool %v", part.Spent(), whole.Spent(), part.Pools())
	}
	if err := part.Take(8); err == nil {
		t.Error("13 of 12 were taken")
	}
	part.Add(-5)
	if err := part.Take(8); err != nil {
		t.Error(err)
	}
}

// An answer that this transport makes says how long it is.
func TestAs429HasItsLength(t *testing.T) {
	r := newRig(t, nil, &meter.Options{Refused: meter.As429})
	resp, err := r.client.Get("https://api.example.com/v1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("Content-Length") != strconv.Itoa(len(text)) || resp.ContentLength != int64(len(text)) {
		t.Errorf("%d bytes, and the header says %s: %v", len(text), resp.Header.Get("Content-Length"), err)
	}
}

// HEAD has no body, whatever its answer says of the length.
func TestTheAnswerOfHeadHasNoBytes(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5000") }, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    pools: {bytes: {quota: 100000, windows: [{per: 1h}]}}
    methods: {get: {route: "HEAD /x", pool: bytes, cost: {estimate: {header: X-Most, default: 9000}, actual: {bytes: body}}}}
`, r.clock)
	r.meter(nil)
	if _, _, err := r.do(t.Context(), "HEAD", "https://api.example.com/x", ""); err != nil {
		t.Fatal(err)
	}
	r.flush()
	if n := r.used("api/bytes"); n != 0 {
		t.Errorf("%d bytes were charged", n)
	}
}
