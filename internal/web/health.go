package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// readyWithin is how long ledger and catalog have to show that they are there. Who
// probes gives up after a second or a few.
const readyWithin = 2 * time.Second

// health is what probes are answered with.
type health struct {
	Status string `json:"status"`
}

// live says that the process is up, and nothing of what it stands on: to start it
// again would mend neither.
func (s *Server) live(*http.Request) (any, error) { return health{"live"}, nil }

// ready says that the ledger can be reached and the catalog be read. A quota that is
// used up is no fault.
func (s *Server) ready(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	src := s.from()
	if _, err := src.Ledger.Usage(ctx, "", ""); err != nil {
		return nil, unready("the ledger cannot be read", err)
	}
	if _, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Limit: 1}); err != nil {
		return nil, unready("the catalog cannot be read", err)
	}
	return health{"ready"}, nil
}

// unready says what is the matter to who probes, and to the log why.
func unready(what string, why error) error {
	return fmt.Errorf("%w: %w", &Problem{Status: http.StatusServiceUnavailable, Detail: what}, why)
}
