package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

// readyWithin bounds how long the ledger and the catalog have to answer. Probes give up
// after a second or a few.
const readyWithin = 2 * time.Second

// health is the answer to a probe.
type health struct {
	Status string `json:"status"`
}

// live says that the process is up. It does not ask the ledger or the catalog: a restart
// would repair neither.
func (s *Server) live(*http.Request) (any, error) { return health{"live"}, nil }

// ready says that the ledger can be read and written and the catalog read. A server whose
// quota is used up is ready.
func (s *Server) ready(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	src := s.current()
	if _, err := src.Ledger.View().Usage(ctx, "", ""); err != nil {
		return nil, unready("the ledger cannot be read", err)
	}
	if err := src.Ledger.Ready(ctx); err != nil {
		return nil, unready("the ledger cannot be written", err)
	}
	if s.alone {
		return health{"ready"}, nil
	}
	if err := src.Catalog.Ready(ctx); err != nil {
		return nil, unready("the catalog cannot be read", err)
	}
	return health{"ready"}, nil
}

// unready tells the probe what is wrong, and the log why.
func unready(what string, why error) error {
	return fmt.Errorf("%w: %w", &problem.Problem{Status: http.StatusServiceUnavailable, Detail: what}, why)
}
