package meter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

func TestTransport(t *testing.T) {
	t.Run("a call is charged what its method costs", func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.get("http://api.example.com/v1/items")
		r.charged(1)
		r.get("http://api.example.com/v1/items:stats?id=1")
		r.charged(6)
		r.get("http://api.example.com/v1/both")
		r.charged(8)
		if got := r.used("api/searches"); got != 1 {
			t.Errorf("%d searches charged, want 1", got)
		}
	})
	t.Run("each page is a call", func(t *testing.T) {
		r := newRig(t, nil, nil)
		for range 10 {
			r.get("http://api.example.com/v1/items?pageToken=x")
		}
		r.charged(10)
	})
	t.Run("a refused call is not sent", func(t *testing.T) {
		var calls atomic.Int64
		r := newRig(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) }, nil)
		for range 3 {
			r.get("http://api.example.com/v1/search")
		}
		_, _, err := r.do(t.Context(), "GET", "http://api.example.com/v1/search", "")
		e := refused(t, err)
		if e.Pool.String() != "api/searches" || e.Used != 3 || e.Limit != 3 || e.RetryAfter <= 0 {
			t.Errorf("refusal %+v", e)
		}
		if got := calls.Load(); got != 3 {
			t.Errorf("the server saw %d calls, want 3", got)
		}
	})
	t.Run("the body of a refused request is closed", func(t *testing.T) {
		r := newRig(t, nil, nil)
		for _, url := range []string{"http://api.example.com/v1/nothing", "http://api.example.com/v1/items?key=x"} {
			body := &closing{Reader: strings.NewReader("x")}
			req, _ := http.NewRequest("POST", url, body)
			if _, _, err := r.send(req); err == nil || !body.closed.Load() {
				t.Errorf("%s: error %v, body closed %v", url, err, body.closed.Load())
			}
		}
		r.charged(0)
	})
	t.Run("other hosts pass untouched", func(t *testing.T) {
		var got *http.Request
		r := newRig(t, nil, nil)
		r.meter(&meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key("secret")}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			got = req
			return r.base.RoundTrip(req)
		})})
		req, _ := http.NewRequest("GET", "http://example.net/v1/items?key=theirs", nil)
		resp, err := r.client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got != req || len(got.Header) > 0 {
			t.Errorf("the base got %v, want the request itself", got)
		}
		r.charged(0)
	})
	t.Run("the request is not changed", func(t *testing.T) {
		r := newRig(t, nil, &meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key("secret")}})
		req, _ := http.NewRequest("GET", items, nil)
		req.Header.Set("X-Mine", "1")
		resp, err := r.client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(req.Header) != 1 || req.Context() != context.Background() {
			t.Errorf("the request was changed: %v", req.Header)
		}
		if resp.Request != req {
			t.Error("the answer is of another request: it could have the key in it")
		}
	})
	t.Run("a request without headers gets the key", func(t *testing.T) {
		var key atomic.Value
		r := newRig(t, func(_ http.ResponseWriter, req *http.Request) { key.Store(req.Header.Get("X-Api-Key")) },
			&meter.Options{Keys: map[string]meter.KeySource{"api": meter.Key("secret")}})
		req, _ := http.NewRequest("GET", items, nil)
		req.Header = nil
		resp, err := r.client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if key.Load() != "secret" {
			t.Errorf("the server got key %q", key.Load())
		}
	})
	t.Run("an answer of 304 is charged", func(t *testing.T) {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, nil)
		if status, _, err := r.do(t.Context(), "GET", "http://api.example.com/v1/items", ""); err != nil || status != http.StatusNotModified {
			t.Errorf("%d, %v", status, err)
		}
		r.charged(1)
	})
	t.Run("so is one that failed", func(t *testing.T) {
		r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, nil)
		if status, _, err := r.do(t.Context(), "GET", "http://api.example.com/v1/items", ""); err != nil || status != http.StatusInternalServerError {
			t.Errorf("%d, %v", status, err)
		}
		r.charged(1)
	})
	t.Run("idle connections of the base are closed", func(t *testing.T) {
		closed := false
		newTransport(t, newLedger(t, prices, nil), &meter.Options{Base: idler{&closed}}).CloseIdleConnections()
		if !closed {
			t.Error("they are not")
		}
		newTransport(t, newLedger(t, prices, nil), &meter.Options{Base: roundTrip(nil)}).CloseIdleConnections() // it has none
	})
}

func TestWho(t *testing.T) {
	r := newRig(t, nil, &meter.Options{Account: "staging"})
	ctx := meter.WithRegion(meter.WithJob(t.Context(), "trending"), "JP")
	r.do(ctx, "GET", "http://api.example.com/v1/items", "")
	r.do(meter.WithClass(ctx, "backfill"), "GET", "http://api.example.com/v1/items", "")
	r.do(meter.WithAccount(ctx, "default"), "GET", "http://api.example.com/v1/items", "")
	spent, err := r.ledger.View().Spend(t.Context(), quota.SpendQuery{Upstream: "api"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]quota.Labels{}
	for _, s := range spent {
		got[s.Pool.Account+s.Labels.Class] = s.Labels
	}
	for who, class := range map[string]string{"staging": "", "stagingbackfill": "backfill", "default": ""} {
		if want := (quota.Labels{Method: "items.list", Job: "trending", Region: "JP", Class: class}); got[who] != want {
			t.Errorf("%s: spend %+v, want %+v", who, got[who], want)
		}
	}
	for _, ctx := range []context.Context{meter.WithClass(ctx, "none"), meter.WithAccount(ctx, "none"), meter.WithOutage(ctx, "perhaps")} {
		if _, _, err := r.do(ctx, "GET", "http://api.example.com/v1/items", ""); !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("error %v, want bad input", err)
		}
	}
}

func TestAClassLeavesItsPartFree(t *testing.T) {
	r := newRig(t, nil, nil)
	ctx := meter.WithClass(t.Context(), "backfill")
	sent := 0
	for range 100 {
		_, _, err := r.do(ctx, "GET", "http://api.example.com/v1/items", "")
		if err == nil {
			sent++
		}
	}
	if sent != 70 {
		t.Errorf("%d calls were sent, want 70", sent)
	}
	r.get("http://api.example.com/v1/items")
	r.charged(71)
}

func TestHold(t *testing.T) {
	r := newRig(t, nil, nil)
	hold := r.hold("items.list", 4)
	ctx := hold.Context(t.Context())
	r.charged(4)
	for range 3 {
		r.do(ctx, "GET", "http://api.example.com/v1/items", "")
	}
	r.charged(4)
	if left := hold.Left()["units"]; left != 1 {
		t.Errorf("%d units left, want 1", left)
	}
	r.do(ctx, "GET", "http://api.example.com/v1/items:stats", "") // costs more than is left
	r.charged(9)
	if err := hold.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.charged(8)
	r.do(ctx, "GET", "http://api.example.com/v1/items", "")
	r.charged(9)
}

func TestWaiting(t *testing.T) {
	const url = "http://api.example.com/v1/search"
	spent := func(t *testing.T, most time.Duration) *rig {
		r := newRig(t, nil, &meter.Options{MaxWait: most})
		for range 3 {
			r.get(url)
		}
		return r
	}
	t.Run("a refusal nearer than MaxWait is waited out", func(t *testing.T) {
		r := spent(t, time.Hour)
		r.get(url)
		if waited := r.clock.Now().Sub(noon); waited < 10*time.Minute || waited > 12*time.Minute {
			t.Errorf("it waited %s", waited)
		}
	})
	t.Run("one that is farther off comes at once", func(t *testing.T) {
		r := spent(t, time.Minute)
		_, _, err := r.do(t.Context(), "GET", url, "")
		refused(t, err)
		if !r.clock.Now().Equal(noon) {
			t.Error("it waited")
		}
	})
	t.Run("without MaxWait every one does", func(t *testing.T) {
		r := spent(t, 0)
		_, _, err := r.do(t.Context(), "GET", url, "")
		refused(t, err)
	})
	t.Run("one past the deadline comes at once", func(t *testing.T) {
		r := newRig(t, nil, &meter.Options{MaxWait: time.Hour})
		deadline := time.Now().Add(time.Hour) // later than this test ends
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		r.clock.Set(deadline.Add(-time.Minute))
		for range 3 {
			r.get(url)
		}
		_, _, err := r.do(ctx, "GET", url, "")
		refused(t, err)
	})
	t.Run("the timeout of a client includes it", func(t *testing.T) {
		r := newRig(t, nil, &meter.Options{MaxWait: time.Hour})
		r.clock.Set(time.Now()) // by which the client goes
		for range 3 {
			r.get(url)
		}
		r.client.Timeout = time.Minute
		_, _, err := r.do(t.Context(), "GET", url, "")
		refused(t, err)
	})
	t.Run("a cancelled wait ends and costs nothing", func(t *testing.T) {
		r := newRig(t, nil, &meter.Options{MaxWait: time.Hour})
		r.ledger = newLedger(t, prices, nil) // the machine's clock: it really waits
		r.meter(&meter.Options{MaxWait: time.Hour})
		for range 3 {
			r.get(url)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, _, err := r.do(ctx, "GET", url, "")
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
		if got := r.used("api/searches"); got != 3 {
			t.Errorf("%d searches charged, want 3", got)
		}
	})
}

func TestLog(t *testing.T) {
	r := newRig(t, nil, nil)
	for range 3 {
		r.get("http://api.example.com/v1/search")
	}
	if got := strings.Count(r.log.String(), "\n"); got != 3 || strings.Count(r.log.String(), "level=DEBUG") != 3 {
		t.Errorf("granted calls are not a line each at debug:\n%s", r.log)
	}
	r.log.Reset()
	r.do(meter.WithJob(t.Context(), "news"), "GET", "http://api.example.com/v1/search?q=private", "")
	line := r.log.String()
	for _, want := range []string{"level=INFO", `msg="call refused"`, "upstream=api", "method=search.list", "job=news", "pool=api/searches", "used=3", "limit=3", "units=1", "retry_after=10m"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line lacks %s: %s", want, line)
		}
	}
	if strings.Count(line, "\n") != 1 || strings.Contains(line, "private") {
		t.Errorf("more than a line, or more than it should say:\n%s", line)
	}
	r.log.Reset()
	for range 100 {
		r.do(t.Context(), "GET", "http://api.example.com/v1/search", "")
	}
	if got := strings.Count(r.log.String(), "level=INFO"); got != 1 {
		t.Errorf("a stretch of refusals has %d lines, want one:\n%s", got, r.log)
	}
	r.log.Reset()
	r.clock.Advance(10*time.Minute + time.Second) // until the first one's retry time
	for range 4 {
		r.do(t.Context(), "GET", "http://api.example.com/v1/search", "")
	}
	if got := r.log.String(); !strings.Contains(got, "refused_before=99") {
		t.Errorf("the next line does not say how many there were:\n%s", got)
	}
	r.log.Reset()
	r.do(t.Context(), "GET", "http://api.example.com/v1/nobody-priced-this", "")
	if line := r.log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, `msg="call not sent"`) {
		t.Errorf("what is no refusal is told as one: %s", line)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

type idler struct{ closed *bool }

func (i idler) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no") }
func (i idler) CloseIdleConnections()                           { *i.closed = true }
