package open_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/open"
)

const (
	slotTTL   = 3 * time.Second
	slotLimit = 10

	slotUpstream = "HEADROOM_TEST_UPSTREAM"
	slotCallers  = "HEADROOM_TEST_CALLERS"
	slotState    = "HEADROOM_TEST_STATE"
)

func slotLedger(ctx context.Context, address, state string) (*open.Opened, error) {
	b, err := book.Parse("costs.yaml", fmt.Appendf(nil, `{revision: 1, upstreams: {api: {
		pools: {at_once: {windows: [{in_flight: %d, ttl: %s}]}, calls: {quota: 1000000, windows: [{per: 1m}]}},
		methods: {get: {charge: {at_once: 1, calls: 1}}}}}}`, slotLimit, slotTTL), nil)
	if err != nil {
		return nil, err
	}
	return open.Open(ctx, address, &open.Options{Book: b, State: state, Logger: slog.New(slog.DiscardHandler)})
}

// children are what a process of this test can be told to do.
var children = map[string]childtest.Task{"call": callAtOnce, "spend money": spendMoney, "wait heavily": waitsHeavily, "spill": spill}

// callAtOnce calls the upstream from many goroutines, until it is told to stop.
func callAtOnce(address string, begin func() bool, _ io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	o, err := slotLedger(ctx, address, os.Getenv(slotState))
	if err != nil {
		return err
	}
	callers, err := strconv.Atoi(os.Getenv(slotCallers))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	begin()
	failed := make(chan error, callers)
	for range callers {
		go func() { failed <- callInTurn(ctx, o.Ledger, client) }()
	}
	begin() // the parent says stop
	stop()
	for range callers {
		if err := <-failed; err != nil {
			return err
		}
	}
	return o.Close()
}

func callInTurn(ctx context.Context, l *quota.Ledger, client *http.Client) error {
	outages := 0 // of a busy machine, where the file or the server did not answer in time
	for ctx.Err() == nil {
		r, err := l.Wait(ctx, quota.Call{Method: "get"}, time.Minute)
		if ctx.Err() != nil && err != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		if errors.Is(err, quota.ErrOutage) && outages < 100 {
			outages++
			continue
		}
		if err != nil {
			return err
		}
		answer, err := client.Get(os.Getenv(slotUpstream) + "?pid=" + strconv.Itoa(os.Getpid()))
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if err := answer.Body.Close(); err != nil {
			return err
		}
		if err := r.Done(context.Background()); err != nil && !errors.Is(err, quota.ErrOutage) { // then its slot ends by its ttl
			return err
		}
	}
	return nil
}

// slotServer counts the calls that it has at once, and knows nothing of a ledger. The first
// calls wait for each other until half of the slots are taken, so that many calls meet. A few
// calls take longer than the ttl of a slot.
type slotServer struct {
	met  chan struct{} // closed when half of the slots were taken at once
	meet func()

	mu    sync.Mutex
	now   int
	most  int
	calls int
	by    map[string]int // calls at once, by process
}

func newSlotServer() *slotServer {
	s := &slotServer{met: make(chan struct{}), by: map[string]int{}}
	s.meet = sync.OnceFunc(func() { close(s.met) })
	return s
}

func (s *slotServer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	pid := r.FormValue("pid")
	s.mu.Lock()
	s.now++
	s.by[pid]++
	s.calls++
	if s.most = max(s.most, s.now); s.most >= slotLimit/2 {
		s.meet()
	}
	takes := 20 * time.Millisecond
	if s.calls%60 == 7 {
		takes = slotTTL * 4 / 3
	}
	s.mu.Unlock()
	select {
	case <-s.met:
	case <-r.Context().Done():
	}
	_ = quota.SystemClock{}.Sleep(r.Context(), takes)
	s.mu.Lock()
	s.now--
	s.by[pid]--
	s.mu.Unlock()
}

// reach waits until the server has got so many calls, and returns the process that has
// the most of them at once.
func (s *slotServer) reach(t *testing.T, calls int) (pid string) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		ready, most := s.calls >= calls, 0
		for p, n := range s.by {
			if n > most {
				pid, most = p, n
			}
		}
		s.mu.Unlock()
		if ready && most > 0 {
			return pid
		}
	}
	t.Fatalf("after three minutes the server has got %d calls, want %d", s.calls, calls)
	return ""
}

// Eight processes never have more calls in flight than the server allows. Two of them are
// killed, and their slots come back.
func TestProcessesInFlight(t *testing.T) {
	callers, calls := 4, 200
	if os.Getenv("HEADROOM_SOAK") == "1" {
		callers, calls = 50, 4000
	}
	for _, kind := range []string{"redis", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			address := "sqlite:" + filepath.Join(dir, "ledger.db")
			if kind == "redis" {
				address = "redis://" + redisServer(t).Addr + "/0"
			}
			upstream := newSlotServer()
			server := httptest.NewServer(upstream)
			defer server.Close()
			o, err := slotLedger(t.Context(), address, dir)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			var all []*childtest.Child
			for range 8 {
				all = append(all, childtest.Start(t, "call", address, slotUpstream+"="+server.URL, slotCallers+"="+strconv.Itoa(callers), slotState+"="+dir))
			}
			for _, c := range all {
				c.Begin()
			}
			for i := range 2 { // kill those that are at it
				pid := upstream.reach(t, calls*(i+1)/2)
				k := slices.IndexFunc(all, func(c *childtest.Child) bool { return strconv.Itoa(c.Process.Pid) == pid })
				all[k].Kill()
				all = slices.Delete(all, k, k+1)
			}
			upstream.reach(t, 2*calls)
			for _, c := range all {
				c.Begin()
			}
			for _, c := range all {
				c.Rest()
			}
			upstream.mu.Lock()
			t.Logf("%d calls, %d at once", upstream.calls, upstream.most)
			if upstream.most > slotLimit {
				t.Errorf("the server had %d calls at once, want at most %d", upstream.most, slotLimit)
			}
			upstream.mu.Unlock()
			for range 100 {
				page, err := o.Ledger.View().Usage(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				if page[0].Windows[0].Used == 0 {
					return
				}
				time.Sleep(slotTTL / 10)
			}
			t.Error("the slots of killed processes are taken long after their ttl")
		})
	}
}
