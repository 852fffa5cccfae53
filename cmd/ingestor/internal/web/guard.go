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

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
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
		if r.TLS != nil && !loopback(r.Host) { // of localhost it would hold for all other programs there
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

// isOurs reports whether a host is this machine or one of the settings.
func (s *Server) isOurs(host string) bool {
	named := func(of string) bool { return strings.EqualFold(of, hostname(host)) }
	return s.o.AnyHost || loopback(host) || slices.ContainsFunc(s.o.Hosts, named)
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

// loopback reports whether a host, with or without a port, is a loopback name or address.
func loopback(host string) bool {
	host = hostname(host)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// isAddress reports whether a host is an address. No page of another site has one of ours.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(hostname(host))
	return err == nil
}

// hostname returns a host without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Public reports whether an address to listen on can be reached from other machines. It
// returns an error if the address is invalid.
func Public(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, errors.New("write the address as 127.0.0.1:8080")
	}
	return !loopback(host), nil
}
