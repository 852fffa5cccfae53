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

// health is the answer to a probe. Probes ask for any host, so it names no job, folder or person.
type health struct {
	Status  string  `json:"status"`
	Verdict *inWord `json:"verdict,omitempty"`
}

// inWord is a verdict without its reasons.
type inWord struct {
	Level view.Level `json:"level"`
	Word  string     `json:"word"`
}

// live says that the process is up. It does not ask the ledger or the catalog: a restart
// would repair neither.
func (s *Server) live(*http.Request) (any, error) { return health{Status: "live"}, nil }

// ready says whether the server can do its work: the ledger and the catalog can be read and written. A server
// whose quota is used up is ready, and so is one whose jobs nobody runs, because callers need it all the same.
// Who wants an alarm for that, too, asks for /readyz?jobs=yes.
func (s *Server) ready(r *http.Request) (any, error) {
	jobs := r.URL.Query().Get("jobs")
	if jobs != "" && jobs != "yes" {
		return nil, &problem.Problem{Status: http.StatusBadRequest, Detail: "jobs can only be yes: then the answer is 503 if runs cannot do their work"}
	}
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
	if s.alone {
		return health{Status: "ready"}, nil
	}
	v := is.Verdict()
	if jobs != "" && v.Level == view.Bad {
		return nil, unready("runs cannot do their work: " + v.Word)
	}
	return health{"ready", &inWord{v.Level, v.Word}}, nil
}

// standing returns the facts of now, or of a moment ago. Those who ask at once are told the same.
func (s *Server) standing(ctx context.Context) *verdict.State {
	s.asked.Lock()
	defer s.asked.Unlock()
	if is := s.stood; is != nil && s.o.Clock.Now().Sub(is.Now).Abs() < s.o.Share && s.stoodOf == s.current() {
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
