package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// A call that says so waits for its units, of a pool or a key, if they come back in time.
func TestACallWaitsForItsUnits(t *testing.T) {
	r := newDecider(t, nil)
	r.grant(`{"pool": "units", "units": 10}`)
	r.grant(`{"family": "visitor", "key": "ann", "units": 3}`)
	r.Clock.Advance(6500 * time.Millisecond)
	p := r.refuse(http.StatusTooManyRequests, "refused", "/v1/reserve", `{"pool": "units", "wait": 4}`)
	if p.Verdict == nil || p.Verdict.RetryAfter != 4.5 || r.Clock.Now().After(noon.Add(6500*time.Millisecond)) {
		t.Errorf("it comes too late: %s at %s", encoded(t, p), r.Clock.Now())
	}
	for _, body := range []string{`{"family": "visitor", "key": "ann", "wait": 5}`, `{"pool": "units", "id": "a", "wait": 5}`} {
		if v := r.grant(body); v.At.Before(noon.Add(11*time.Second)) || v.At.After(noon.Add(12*time.Second)) {
			t.Errorf("%s: granted at %s", body, v.At)
		}
	}
	for body, says := range map[string]string{
		`{"pool": "units", "wait": 6}`:      "wait must be at most 5 seconds",
		`{"pool": "units", "wait": -1}`:     "must be from 0",
		`[{"pool": "units", "wait": 0.01}]`: "send it by itself",
	} {
		if a := r.ask("POST", "/v1/reserve", body, withToken...); !strings.Contains(a.body, says) {
			t.Errorf("%s: it says %s, not %q", body, a.body, says)
		}
	}
}

// sleeper is a clock on which nobody wakes before the context ends.
type sleeper struct {
	quota.Clock
	asleep chan struct{}
}

func (s *sleeper) Sleep(ctx context.Context, _ time.Duration) error {
	select {
	case s.asleep <- struct{}{}:
	default: // nobody looks
	}
	<-ctx.Done()
	return ctx.Err()
}

// A client that goes away while its call waits is let go, and takes nothing.
func TestACallWhoseClientGoesAwayIsLetGo(t *testing.T) {
	r := newDecider(t, &web.Options{Timeouts: web.Timeouts{Query: time.Hour}}) // nothing else ends the call
	clock := &sleeper{r.Clock, make(chan struct{}, 1)}
	r.on(memstore.New(&memstore.Options{Clock: r.Clock}), &quota.Options{Clock: clock})
	r.grant(`{"pool": "units", "units": 10}`)
	r.Clock.Advance(7 * time.Second)
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/reserve", strings.NewReader(`{"pool": "units", "units": 2, "wait": 5}`))
	r.Must(err)
	req.Header.Set("Authorization", "Bearer "+theToken)
	gone := make(chan error, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			_ = res.Body.Close()
		}
		gone <- err
	}()
	select {
	case <-clock.asleep:
	case err := <-gone:
		t.Fatalf("it does not wait: %v", err)
	}
	leave()
	if <-gone == nil {
		t.Error("it was answered")
	}
	for tries := 0; r.server.Reserving() > 0; tries++ {
		if tries == 10_000 {
			t.Fatal("the call still waits")
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Clock.Advance(12 * time.Second)
	if used := r.used(); used != 0 {
		t.Errorf("it took %d units", used)
	}
}

// A call may wait for longer than the ledger has for an answer.
func TestACallWaitsForLongerThanAnAnswerTakes(t *testing.T) {
	r := newDecider(t, &web.Options{Timeouts: web.Timeouts{Query: 700 * time.Millisecond}})
	costs, err := book.Parse("test", []byte("revision: 1\nfamilies: {visitor: {quota: 1, windows: [{per: 1s}]}}"), nil)
	r.Must(err)
	r.Ledger, err = quota.New(costs, memstore.New(nil), nil)
	r.Must(err)
	r.token(theToken)
	_, err = r.Ledger.Reserve(t.Context(), quota.Call{Family: "visitor", Key: "ann", Units: 1})
	r.Must(err)
	r.grant(`{"family": "visitor", "key": "ann", "wait": 5}`)
}
