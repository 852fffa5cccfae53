package web

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

// riversPolicy lets the pages of River load what they bring along, and nothing else.
const riversPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeRiver serves River's own pages, of the program riverui at this URL, from a listener of
// their own as [Server.Serve] does. A browser asks for a name, which does not count, and a
// password: a token with the right operate. Changes are logged with the token's name.
func (s *Server) ServeRiver(at *url.URL) func(ctx, abort context.Context, l net.Listener) error {
	riverui := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			r.Out.Header.Del("Authorization") // it may log it
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the browser hung up
			}
			if due, skipped := s.complaints.Due("River's pages"); due {
				s.o.Log.Warn("River's pages cannot be reached; start riverui, or remove river_ui", "at", at.Redacted(), "error", err, "skipped", skipped)
			}
			s.fail(w, r, &problem.Problem{Status: http.StatusBadGateway, Detail: "the program riverui does not answer; the server's log says where it should be"})
		},
	}
	handler := s.guarded(s.forOperators(riverui))
	return func(ctx, abort context.Context, l net.Listener) error {
		return s.serve(ctx, abort, l, handler, s.crowd)
	}
}

func (s *Server) forOperators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, presented, _ := r.BasicAuth()
		t := access.Find(s.current().Tokens, presented)
		if t == nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="Any name, and a token with the right operate as password", charset="UTF-8"`)
			s.fail(w, r, s.wrongToken(w, r, presented))
			return
		}
		if err := t.May(access.Operate); err != nil {
			s.fail(w, r, err)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.o.Log.Info("a person acted", "who", t.Name(), "action", r.Method, "target", r.URL.Path)
		}
		w.Header().Set("Content-Security-Policy", riversPolicy)
		next.ServeHTTP(w, r)
	})
}
