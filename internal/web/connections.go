package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/headroom-quota/headroom/internal/metrics"
	"github.com/headroom-quota/headroom/internal/web/guard"
)

// DefaultConnections is the default of [Options.Connections].
const DefaultConnections = 1000

// crowded refuses requests of a client that has too many under way, and tells the crowd
// when the server is at work for a connection. It also bounds the body.
func (s *Server) crowded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := guard.ClientOf(s.limits.Load().routes.Client(r))
		if !s.crowd.Begin(r, client) {
			s.metrics.RequestRefused(metrics.OfClient)
			s.fail(w, r, &Problem{Status: http.StatusTooManyRequests, Code: "too_many_at_once", Detail: "too many requests of this address are under way", RetryAfter: time.Second})
			return
		}
		defer s.crowd.End(client)
		r = r.WithContext(context.WithValue(r.Context(), clientKey{}, client)) // a copy
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		w, done := s.crowd.Working(w, r)
		defer done()
		next.ServeHTTP(w, r)
	})
}

// connectionClosed logs that a connection was closed to make room, once a minute.
func (s *Server) connectionClosed(reason string, client netip.Prefix) {
	s.metrics.ConnectionClosed(reason)
	if due, skipped := s.complaints.Due("connections of " + reason); due {
		s.log.Warn("closed a connection to make room", "client", client.Addr(), "too_many_of", reason, "skipped", skipped)
	}
}
