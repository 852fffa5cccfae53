package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
)

// readyWithin bounds how long the ledger and the catalog have to answer. Probes give up
// after a second or a few.
const readyWithin = 2 * time.Second

// health is the answer to a probe.
type health struct {
	Status  string        `json:"status"`
	Verdict *verdict.Said `json:"verdict,omitempty"`
}

// live says that the process is up. It does not ask the ledger or the catalog: a restart
// would repair neither.
func (s *Server) live(*http.Request) (any, error) { return health{Status: "live"}, nil }

// ready says whether the server can do its work: the ledger and the catalog can be read and written. A server
// whose quota is used up is ready, and so is one whose jobs nobody runs, because callers need it all the same.
// The verdict says so, to those who ask for an address or for a host of the settings: a page of another site
// may have its name resolve to an address of this server. Who wants an alarm for it asks for
// /readyz?jobs=yes.
func (s *Server) ready(r *http.Request) (any, error) {
	is := s.standing(r.Context())
	for _, fault := range []struct {
		what string
		why  error
	}{
		{"the ledger cannot be read", is.Outage},
		{"the ledger cannot be written", is.Stuck},
		{"the catalog cannot be read", is.Unread},
		{"the catalog cannot be written", is.Unkept},
	} {
		if fault.why != nil { // the probe is told what is wrong, and the log why
			return nil, fmt.Errorf("%w: %w", unready(fault.what), fault.why)
		}
	}
	if s.alone || !s.isOurs(r.Host) && !isAddress(r.Host) {
		return health{Status: "ready"}, nil
	}
	v := is.Verdict().Said()
	if r.URL.Query().Get("jobs") == "yes" && v.Level == view.Bad {
		return nil, unready(v.Word + ": " + v.Says)
	}
	return health{"ready", v}, nil
}

// standing returns the facts of now, or of a moment ago. Those who ask at once are told the same.
func (s *Server) standing(ctx context.Context) *verdict.State {
	s.asked.Lock()
	defer s.asked.Unlock()
	if is := s.stood; is != nil && s.clock.Now().Sub(is.Now).Abs() < s.share && s.stoodOf == s.current() {
		return is
	}
	apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin)
	defer cancel()
	s.stoodOf = s.current()
	s.stood = s.facts.Read(apart, &s.stoodOf.Sources)
	return s.stood
}

func unready(what string) error {
	return &problem.Problem{Status: http.StatusServiceUnavailable, Detail: what}
}
