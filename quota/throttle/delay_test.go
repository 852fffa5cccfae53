package throttle_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
	"github.com/headroom-quota/headroom/quota/throttle"
)

// delayed is a throttle of two requests in two seconds whose requests wait.
type delayed struct {
	*testing.T
	began   time.Time
	handler http.Handler

	mu     sync.Mutex
	served []string // by whom, and after how long
	wg     sync.WaitGroup
}

func newDelayed(t *testing.T, o *throttle.Options) *delayed {
	t.Helper()
	ledger, err := quota.New(parse(t, "revision: 1\nfamilies: {client: {quota: 2, windows: [{per: 2s, precision: 1s}]}}"), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := throttle.New(ledger, o)
	if err != nil {
		t.Fatal(err)
	}
	d := &delayed{T: t, began: time.Now()}
	d.handler = limiter.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.served = append(d.served, fmt.Sprint(r.URL.Query().Get("n"), " after ", time.Since(d.began).Truncate(time.Second)))
	}))
	return d
}

// ask sends a request in the background, and returns once it was answered or waits.
func (d *delayed) ask(ctx context.Context, n int, from string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.wg.Go(func() {
		d.handler.ServeHTTP(w, request(fmt.Sprint("GET /?n=", n), from).WithContext(ctx))
	})
	synctest.Wait()
	return w
}

// want compares who was served, and when. Those of one time may finish in any order.
func (d *delayed) want(want ...string) {
	d.Helper()
	d.wg.Wait()
	slices.Sort(d.served)
	if got := fmt.Sprint(d.served); got != fmt.Sprint(want) {
		d.Errorf("served %s, want %s", got, want)
	}
}

// Requests over a limit wait for it, in their order: also if another comes just when there is room again.
func TestRequestsWaitInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelayed(t, &throttle.Options{Delay: 5 * time.Second})
		for n := range 4 {
			d.ask(t.Context(), n, "203.0.113.1:1")
		}
		time.Sleep(3 * time.Second)
		d.ask(t.Context(), 4, "203.0.113.1:1")
		d.want("0 after 0s", "1 after 0s", "2 after 3s", "3 after 3s", "4 after 6s")
	})
}

// A request that would wait for too long is refused at once, and told when to come again.
func TestWhatWouldWaitTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelayed(t, &throttle.Options{Delay: 5 * time.Second})
		for n := range 4 {
			d.ask(t.Context(), n, "203.0.113.1:1")
		}
		late := d.ask(t.Context(), 4, "203.0.113.1:1")
		d.want("0 after 0s", "1 after 0s", "2 after 3s", "3 after 3s")
		wait, err := strconv.Atoi(late.Header().Get("Retry-After"))
		if late.Code != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 6 {
			t.Errorf("one too many: status %d, Retry-After %q", late.Code, late.Header().Get("Retry-After"))
		}
	})
}

// The time to wait is for the request, however many limits it has.
func TestADelayIsForAllLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := []throttle.Limit{{}, {By: []throttle.Part{throttle.Token}, Units: 1}}
		d := newDelayed(t, &throttle.Options{Delay: 4 * time.Second, Limits: both})
		for n := range 2 {
			d.ask(t.Context(), n, "203.0.113.1:1")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		d.ask(t.Context(), 2, "203.0.113.2:1") // waits for its token only
		d.ask(t.Context(), 3, "203.0.113.1:1") // and this one for both
		d.wg.Wait()
		if took := time.Since(d.began); took > 6*time.Second {
			t.Errorf("a request waited for %s", took-2*time.Second)
		}
	})
}

// A key may have as many places as it leaves free for others. A request without one is refused at once.
func TestNoKeyTakesAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelayed(t, &throttle.Options{Delay: 5 * time.Second, Delayed: 4})
		var all []*httptest.ResponseRecorder
		for n := range 7 {
			all = append(all, d.ask(t.Context(), n, "203.0.113.1:1"))
		}
		for n, w := range all[4:] {
			if w.Code != http.StatusTooManyRequests {
				t.Errorf("request %d: status %d, want 429 at once", n+4, w.Code)
			}
		}
		for n := range 2 {
			d.ask(t.Context(), 10+n, "203.0.113.2:1")
		}
		time.Sleep(time.Second)
		d.ask(t.Context(), 12, "203.0.113.2:1")
		d.want("0 after 0s", "1 after 0s", "10 after 0s", "11 after 0s", "12 after 3s", "2 after 3s", "3 after 3s")
	})
}

// A client that goes away is let go: it keeps neither its place nor the turn of those behind it.
func TestAClientThatGoesAwayIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelayed(t, &throttle.Options{Delay: 5 * time.Second, Delayed: 2})
		for n := range 2 {
			d.ask(t.Context(), n, "203.0.113.1:1")
		}
		ctx, leave := context.WithCancel(t.Context())
		d.ask(ctx, 2, "203.0.113.1:1")
		leave()
		synctest.Wait()
		if at := time.Since(d.began); at > 0 {
			t.Errorf("it was let go after %s", at)
		}
		d.ask(t.Context(), 3, "203.0.113.1:1")
		d.want("0 after 0s", "1 after 0s", "3 after 3s")
	})
}
