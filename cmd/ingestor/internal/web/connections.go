package web

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

// DefaultConnections is the default of [Options.Connections].
const DefaultConnections = 1000

// crowded refuses requests of a client that has too many under way, and tells the crowd
// when the server is at work for a connection. It also bounds the body.
func (s *Server) crowded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := s.client(r)
		s.lookForProxy(r)
		if !s.crowd.Begin(r, client) {
			s.tooMany(w, r)
			return
		}
		defer s.crowd.End(client)
		if r.Body != nil && r.Body != http.NoBody {
			bounded := *r
			bounded.Body = http.MaxBytesReader(w, r.Body, maxBody)
			r = &bounded
		}
		w, done := s.crowd.Working(w, r)
		defer done()
		next.ServeHTTP(w, r)
	})
}

// lookForProxy warns once of a proxy that is not trusted. All who come through it count as
// one client.
func (s *Server) lookForProxy(r *http.Request) {
	if r.Header["X-Forwarded-For"] == nil {
		return
	}
	if from, _ := netip.ParseAddrPort(r.RemoteAddr); !s.trusts(from.Addr().Unmap()) {
		s.forwarded.Do(func() {
			s.o.Log.Warn("a proxy that is not trusted passes requests on, so all of its clients count as one; if it is yours, name it with trusted_proxies", "proxy", from.Addr().Unmap())
		})
	}
}

// client returns who sent a request: see [guard.Crowd].
func (s *Server) client(r *http.Request) netip.Prefix {
	if l := s.limits.Load(); l != nil {
		return guard.ClientOf(l.missed.Client(r))
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // it serves probes only
	return guard.ClientOf(from.Addr().Unmap())
}

// tooMany refuses a request of a client that has too many under way.
func (s *Server) tooMany(w http.ResponseWriter, r *http.Request) {
	s.o.Metrics.RequestRefused(metrics.OfClient)
	s.fail(w, r, &problem.Problem{Status: http.StatusTooManyRequests, Code: "too_many_at_once", Detail: "too many requests of this address are under way", RetryAfter: time.Second})
}

// mostChosen bounds how many scrapes of chosen metrics a client has under way. All who scrape
// everything share an answer.
const mostChosen = 4

// scraped serves the metrics. Each choice of some is made for itself, so a client could have
// the server make any number at once, and keep Prometheus waiting.
func (s *Server) scraped() http.Handler {
	next, choosing := s.o.Metrics.Handler(), guard.NewCounts[netip.Prefix](mostChosen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(metrics.Chosen(r)) > 0 {
			client := s.client(r)
			if !choosing.Begin(client) {
				s.tooMany(w, r)
				return
			}
			defer choosing.End(client)
		}
		next.ServeHTTP(w, r)
	})
}

// connectionClosed logs that a connection was closed to make room, once a minute.
func (s *Server) connectionClosed(reason string, client netip.Prefix) {
	s.o.Metrics.ConnectionClosed(reason)
	if due, skipped := s.complaints.Due("connections of " + reason); due {
		s.o.Log.Warn("closed a connection to make room", "client", client.Addr(), "too_many_of", reason, "skipped", skipped)
	}
}
