package meter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/meter"
)

const loggedBook = `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    api_key: {header: X-Api-Key, query: key}
    refusals:
      - {status: 401, credential: true}
      - {status: 429, until: retry-after}
      - {status: 403, for: 1h}
    free: [{status: 304}]
    feedback: [{pool: units, remaining: {header: X-Left}}]
    pools: {units: {quota: 100, windows: [{per: 24h}]}, open: {quota: 5, windows: [{in_flight: 5, ttl: 1m}]}}
    methods: {get: {route: GET /v1/items, charge: {units: 1, open: 1}}}
`

func mustBook(t testing.TB, text string) *book.Book {
	t.Helper()
	b, err := book.Parse("costs.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// faulty is a store that fails when it is told to.
type faulty struct {
	quota.Store
	settles, slots, reserves atomic.Bool // fail
}

var errStore = errors.New("the disk is on fire")

func (s *faulty) Settle(ctx context.Context, t quota.Token, units quota.Units) (quota.Settlement, error) {
	if s.settles.Load() {
		return quota.Settlement{}, errStore
	}
	return s.Store.Settle(ctx, t, units)
}

func (s *faulty) Reserve(ctx context.Context, r quota.Request) (quota.Verdict, error) {
	if s.reserves.Load() {
		return quota.Verdict{}, errStore
	}
	return s.Store.Reserve(ctx, r)
}

func (s *faulty) Slots(ctx context.Context, tokens []quota.Token, done bool) ([]bool, error) {
	if s.slots.Load() {
		return nil, errStore
	}
	return s.Store.Slots(ctx, tokens, done)
}

// The log says what a caller cannot see: why a pool is shut and until when, that a redirect was not followed, and
// that the ledger could not be told something.
func TestLogSaysWhatCallersDoNotSee(t *testing.T) {
	const another = "revision: 1\nupstreams: {api: {pools: {calls: {quota: 9, windows: [{per: 1h}]}}, methods: {get: {cost: 1}}}}"
	for name, c := range map[string]struct {
		answer  func(*rig, http.Header) int
		settles bool // the ledger cannot settle
		says    []string
	}{
		"a refusal for a time": {func(_ *rig, h http.Header) int {
			h.Set("Retry-After", "90")
			return 429
		}, false, []string{`msg="refused by the upstream"`, "retry_after=1m30s", "pool=api/units"}},
		"a refusal until a time": {func(_ *rig, h http.Header) int {
			h.Set("Retry-After", noon.Add(time.Hour).UTC().Format(http.TimeFormat))
			return 429
		}, false, []string{`msg="refused by the upstream"`, "retry_at=2026-11-20T21:00:00"}},
		"a refusal that no rule is about": {func(*rig, http.Header) int { return 429 }, false, []string{"level=WARN", "blocks nothing", "status=429", "add {status: 429, for: 30s} to the refusals of api"}},
		"a bad key":                       {func(*rig, http.Header) int { return 401 }, false, []string{`msg="refused by the upstream"`, "401"}},
		"a redirect": {func(_ *rig, h http.Header) int {
			h.Set("Location", "https://api.example.com/v1/items?key=x")
			return 302
		}, false, []string{`msg="redirect not followed"`, "a URL that has the key in it"}},
		"a failing ledger": {func(*rig, http.Header) int { return 304 }, true, []string{"the disk is on fire", "get"}},
		"a report of a pool that is gone": {func(r *rig, h http.Header) int {
			h.Set("X-Left", "7")
			if err := r.ledger.SetBook(mustBook(r.t, another)); err != nil {
				r.t.Error(err)
			}
			return 200
		}, false, []string{`msg="report not understood"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			r = newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.answer(r, w.Header())) }, nil)
			store := &faulty{Store: memstore.New(&memstore.Options{Clock: r.clock})}
			var err error
			if r.ledger, err = quota.New(mustBook(t, loggedBook), store, &quota.Options{Clock: r.clock}); err != nil {
				t.Fatal(err)
			}
			r.meter(nil)
			store.settles.Store(c.settles)
			if resp, err := r.client.Get("https://api.example.com/v1/items"); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if err := r.transport().Flush(t.Context()); errors.Is(err, quota.ErrOutage) != c.settles {
				t.Error(err)
			}
			for _, want := range c.says {
				if !strings.Contains(r.log.String(), want) {
					t.Errorf("the log does not have %s:\n%s", want, r.log)
				}
			}
		})
	}
}

// A redirect may be allowed in the price book if it leads to another host, and not to less security.
func TestRedirectsSayWhatMayBeDone(t *testing.T) {
	const remedy = "add its host to redirects"
	for _, c := range []struct {
		from, to string
		helps    bool
	}{
		{"https://a.example.com", "https://b.example.com", true},
		{"http://a.example.com", "http://b.example.com", true},
		{"https://a.example.com", "http://b.example.com", false},
		{"http://a.example.com", "https://a.example.com", false},
	} {
		err := &meter.RedirectError{Upstream: "api", From: c.from, To: c.to}
		if strings.Contains(err.Error(), remedy) != c.helps {
			t.Errorf("from %s to %s: %s", c.from, c.to, err)
		}
	}
}

// A refusal by a person says why in the log.
func TestLogHasTheReasonOfABlock(t *testing.T) {
	r := newRig(t, nil, nil)
	pool := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
	if err := r.ledger.Block(t.Context(), pool, r.clock.Now().Add(time.Hour), "the bill is too high"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.do(t.Context(), "GET", "https://api.example.com/v1/items", ""); !errors.Is(err, quota.ErrRefused) {
		t.Fatal(err)
	}
	if want := `reason="the bill is too high"`; !strings.Contains(r.log.String(), want) {
		t.Errorf("the log does not have %s:\n%s", want, fmt.Sprint(r.log))
	}
}

// A slot that could not be given back is named in the log: at the end of an answer, and when a caller leaves that never
// closes it.
func TestLogSaysThatASlotIsKept(t *testing.T) {
	for name, leaves := range map[string]bool{"at the end": false, "the caller leaves": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				w.WriteHeader(200)
				_ = http.NewResponseController(w).Flush()
				if leaves {
					<-req.Context().Done()
				}
			}, nil)
			store := &faulty{Store: memstore.New(&memstore.Options{Clock: r.clock})}
			var err error
			if r.ledger, err = quota.New(mustBook(t, loggedBook), store, &quota.Options{Clock: r.clock}); err != nil {
				t.Fatal(err)
			}
			var log lines
			r.meter(&meter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			store.slots.Store(true)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/v1/items", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.client.Transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if leaves {
				leave()
			} else if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "the disk is on fire"); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the log does not say it:\n%s", log.String())
				}
			}
			_ = resp.Body.Close()
		})
	}
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A refusal may name a time until which a learned rate is not to be tried.
func TestALearnedRateObeysADate(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(429)
	}, nil)
	r.ledger = newLedger(t, `
revision: 1
upstreams:
  api:
    hosts: [api.example.com]
    refusals: [{status: 429, until: retry-after}]
    pools: {calls: {quota: {learn: {from: 5, to: 1000, obey: true}}}}
    default: {'*': {pool: calls, cost: 1}}
`, quota.SystemClock{})
	r.meter(nil)
	if status, _, err := r.do(t.Context(), "GET", "https://api.example.com/things", ""); status != 429 {
		t.Fatal(status, err)
	}
	r.flush()
	_, _, err := r.do(t.Context(), "GET", "https://api.example.com/things", "")
	refused, is := errors.AsType[*quota.RefusedError](err)
	if !is || refused.RetryAfter < 50*time.Minute || refused.RetryAfter > 61*time.Minute {
		t.Errorf("the next call: %v", err)
	}
}

// A price book that is not about the refusals of its upstream sends on and on. The log says so once for each method.
func TestLogSaysOnceThatRefusalsBlockNothing(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, nil)
	var err error
	if r.ledger, err = quota.New(mustBook(t, strings.ReplaceAll(loggedBook, "429, until: retry-after", "509, for: 1m")), memstore.New(&memstore.Options{Clock: r.clock}), &quota.Options{Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	r.meter(nil)
	warnings := func() int {
		return strings.Count(r.log.String(), "level=WARN msg=\"refused by the upstream, which blocks nothing")
	}
	for range 4 {
		if status, _, err := r.do(t.Context(), "GET", "https://api.example.com/v1/items", ""); err != nil || status != http.StatusTooManyRequests {
			t.Fatalf("%d, %v", status, err)
		}
	}
	if n := warnings(); n != 1 {
		t.Errorf("%d lines for 4 refusals:\n%s", n, r.log)
	}
}

// While the ledger is out, each call fails with the reason. The log has it once a minute for each method.
func TestLogSaysOnceThatTheLedgerIsOut(t *testing.T) {
	r := newRig(t, nil, nil)
	store := &faulty{Store: memstore.New(&memstore.Options{Clock: r.clock})}
	var err error
	if r.ledger, err = quota.New(mustBook(t, loggedBook), store, &quota.Options{Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	r.meter(nil)
	store.reserves.Store(true)
	call := func(times, lines int, says string) {
		t.Helper()
		r.log.Reset()
		for range times {
			if _, _, err := r.do(t.Context(), "GET", "https://api.example.com/v1/items", ""); !errors.Is(err, quota.ErrOutage) {
				t.Fatal(err)
			}
		}
		if got := strings.Count(r.log.String(), `level=WARN msg="call not sent"`); got != lines || !strings.Contains(r.log.String(), says) {
			t.Errorf("%d lines for %d calls, want %d with %s:\n%s", got, times, lines, says, r.log)
		}
	}
	call(5, 1, "the disk is on fire")
	r.clock.Advance(time.Minute)
	call(5, 1, "unsent_before=4")
}
