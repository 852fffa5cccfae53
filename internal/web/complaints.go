package web

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// complaints logs requests that failed. While the ledger or the catalog is down, it logs
// each route once a minute, with the number of failures it left out: clients may send any
// number of requests.
type complaints struct {
	clock quota.Clock
	log   *slog.Logger
	mu    sync.Mutex
	last  map[string]*complaint // by the pattern of the route
}

type complaint struct {
	at      time.Time
	skipped int // since then
}

const complainEvery = time.Minute

// add logs a request.
func (c *complaints) add(r *http.Request, status int, err error) {
	skipped := 0
	if status == http.StatusServiceUnavailable {
		var now bool
		if now, skipped = c.due(r.Pattern); !now {
			return
		}
	}
	c.log.Error("answer a request", "method", r.Method, "path", r.URL.Path, "status", status, "skipped", skipped, "error", err)
}

// due reports whether to log a route again, and how many failures were left out.
func (c *complaints) due(route string) (due bool, skipped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, last := c.clock.Now(), c.last[route]
	if last != nil && now.Sub(last.at) < complainEvery {
		last.skipped++
		return false, 0
	}
	if last != nil {
		skipped = last.skipped
	}
	c.last[route] = &complaint{at: now}
	return true, skipped
}
