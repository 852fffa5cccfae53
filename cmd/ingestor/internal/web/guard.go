package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

// maxBody is the highest length of a request's body.
const maxBody = 64 << 10

// guarded adds what every route needs: checks of the site and the host, headers, recovery.
func (s *Server) guarded(next http.Handler) http.Handler {
	next = s.ownHost(s.ownSite(s.crowded(next)))
	return s.problemsAsPages(s.recovered(next))
}

// These are the values of headers that each answer has. Making them takes time.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	sameOrigin = []string{"same-origin"}
)

// recovered turns a panic into an answer, and sets the headers that forbid browsers to
// guess types, to frame answers, to give them to pages of other sites and to send a
// referrer.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = nosniff
		h["Referrer-Policy"] = noReferrer
		h["Content-Security-Policy"] = noContent
		h["Cross-Origin-Resource-Policy"] = sameOrigin
		if r.TLS != nil && !guard.Loopback(r.Host) { // of localhost it would hold for all other programs there
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		defer func() {
			switch p := recover(); {
			case p == nil:
			case p == http.ErrAbortHandler: //nolint:errorlint // as net/http compares it
				panic(p)
			default:
				s.fail(w, r, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// ownHost refuses requests whose host is neither this machine nor one of the settings. Probes
// may ask for any, because they ask for an address, and learn next to nothing. Prometheus may
// ask for any address.
func (s *Server) ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		probes := r.URL.Path == "/livez" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics" && isAddress(r.Host)
		if !s.isOurs(r.Host) && !probes {
			s.fail(w, r, &problem.Problem{Status: http.StatusMisdirectedRequest, Detail: "this server answers only requests to localhost and to the hosts that its setting hosts names"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) isOurs(host string) bool {
	named := func(of string) bool { return strings.EqualFold(of, guard.Hostname(host)) }
	return s.o.AnyHost || guard.Loopback(host) || slices.ContainsFunc(s.o.Hosts, named)
}

// byAddress refuses requests for host names that the settings do not name: a page of another
// site may have its name resolve to an address of this server. Monitoring asks for addresses.
func (s *Server) byAddress(next http.Handler) http.Handler {
	named := s.ownHost(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAddress(r.Host) {
			next.ServeHTTP(w, r)
			return
		}
		named.ServeHTTP(w, r)
	})
}

// ownSite refuses what pages of other sites have a browser send, before it counts for a
// limit: any page could use up that of its reader. Following a link to a page of ours is
// allowed.
func (s *Server) ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if crossSite(r) {
			s.o.Metrics.RequestRefused(metrics.CrossSite)
			s.fail(w, r, &problem.Problem{Status: http.StatusForbidden, Code: "cross_site", Detail: "a page of another site sent this request"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// crossSite reports whether a page of another site sent a request. Only browsers say so.
// Older browsers send no Sec-Fetch-Site, but the origin of some requests.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
	case "cross-site", "same-site": // also of another host of the same domain
		link := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
		return !link || forPrograms(r)
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(from.Host, r.Host)
}

// isAddress reports whether a host is an address. No page of another site has one of ours.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(guard.Hostname(host))
	return err == nil
}

// Public reports whether an address to listen on can be reached from other machines. It
// returns an error if the address is invalid.
func Public(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, errors.New("write the address as 127.0.0.1:8080")
	}
	return !guard.Loopback(host), nil
}

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
