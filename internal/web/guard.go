package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
)

// maxBody is the highest length of a request's body.
const maxBody = 64 << 10

// guarded adds what every route needs: limits, the check of the host, headers, recovery.
func (s *Server) guarded(next http.Handler, o *Options) http.Handler {
	next = s.crowded(s.limited(next))
	if !o.AnyHost {
		next = s.ownHost(next)
	}
	return s.problemsAsPages(s.recovered(http.MaxBytesHandler(next, maxBody)))
}

// recovered turns a panic into an answer, and sets the headers that forbid browsers to
// guess types, to frame answers and to send a referrer.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
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

// ownHost refuses requests whose host is not this machine.
func (s *Server) ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			s.fail(w, r, &Problem{Status: http.StatusMisdirectedRequest, Detail: "this server answers only requests to localhost"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a host, with or without a port, is a loopback name or address.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
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
