//go:build linux

package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest/youtube/youtubesim"
)

// limits are what the upstream grants a pool in each trailing window.
type limits map[time.Duration]int

// upstream is the simulated upstream. It enforces its own limits with an exact log of all
// calls: it knows nothing of the ledger.
type upstream struct {
	sim    *youtubesim.Sim
	limits map[string]limits // by pool
	delay  func() time.Duration

	mu      sync.Mutex
	calls   map[string][]time.Time // those that were granted, by pool
	refused []time.Time
	worst   map[string]map[time.Duration]int
	open    map[int]int                // calls in progress, by daemon
	called  func(daemon int, open int) // runs for each call; may be nil
}

func newUpstream(all map[string]limits, delay func() time.Duration) *upstream {
	u := &upstream{
		sim:    youtubesim.New(&youtubesim.Options{Seed: 1, Quota: youtubesim.Quota{youtubesim.Default: 1e9, youtubesim.SearchList: 1e9}}),
		limits: all, delay: delay, calls: map[string][]time.Time{}, worst: map[string]map[time.Duration]int{}, open: map[int]int{},
	}
	for pool := range all {
		u.worst[pool] = map[time.Duration]int{}
	}
	return u
}

// of returns the handler for the calls of a daemon.
func (u *upstream) of(daemon int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pool := "units"
		if strings.HasSuffix(r.URL.Path, "/search") {
			pool = "searches"
		}
		if !u.grant(pool, time.Now()) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":{"code":403,"message":"quota","errors":[{"domain":"youtube.quota","reason":"quotaExceeded","message":"quota"}]}}`)
			return
		}
		u.mu.Lock()
		u.open[daemon]++
		called, open := u.called, u.open[daemon]
		u.mu.Unlock()
		defer func() {
			u.mu.Lock()
			u.open[daemon]--
			u.mu.Unlock()
		}()
		if called != nil {
			called(daemon, open)
		}
		time.Sleep(u.delay())
		u.sim.ServeHTTP(w, r)
	})
}

// grant counts a call, unless a window is full.
func (u *upstream) grant(pool string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	full := false
	for per, limit := range u.limits[pool] {
		n := 1
		for i := len(u.calls[pool]) - 1; i >= 0 && now.Sub(u.calls[pool][i]) < per; i-- {
			n++
		}
		u.worst[pool][per] = max(u.worst[pool][per], n)
		full = full || n > limit
	}
	if full {
		u.refused = append(u.refused, now)
		return false
	}
	u.calls[pool] = append(u.calls[pool], now)
	return true
}

// callers returns how many daemons have made a call that was granted.
func (u *upstream) callers() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}

// total returns the calls that were granted.
func (u *upstream) total() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, calls := range u.calls {
		n += len(calls)
	}
	return n
}

// spent returns the units that were spent in the last time, as the upstream's console shows.
func (u *upstream) spent(pool string, per time.Duration) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := len(u.calls[pool]) - 1; i >= 0 && time.Since(u.calls[pool][i]) < per; i-- {
		n++
	}
	return n
}
