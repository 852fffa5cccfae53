package web

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// complaints are what the log is told of requests that could not be answered. While
// ledger or catalog are down, those of a route are told of once a minute, with how many
// there were besides: as many may ask as like to.
type complaints struct {
	clock quota.Clock
	log   *slog.Logger
	mu    sync.Mutex
	of    map[string]*complaint // by the pattern of the route
}

type complaint struct {
	told   time.Time
	unsaid int // since then
}

const complainEvery = time.Minute

// add tells of a request.
func (c *complaints) add(r *http.Request, status int, err error) {
	unsaid := 0
	if status == http.StatusServiceUnavailable {
		var now bool
		if now, unsaid = c.due(r.Pattern); !now {
			return
		}
	}
	c.log.Error("answer a request", "method", r.Method, "path", r.URL.Path, "status", status, "unsaid", unsaid, "error", err)
}

// due reports whether it is time to tell of a route again, and how many were left out.
func (c *complaints) due(route string) (due bool, unsaid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, last := c.clock.Now(), c.of[route]
	if last != nil && now.Sub(last.told) < complainEvery {
		last.unsaid++
		return false, 0
	}
	if last != nil {
		unsaid = last.unsaid
	}
	c.of[route] = &complaint{told: now}
	return true, unsaid
}
