package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
)

// bearer returns the token of a request, or "" if it has none or several.
func bearer(r *http.Request) string {
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// callerKey is the key of the caller's token in the context of a request.
type callerKey struct{}

// caller returns the token of an authenticated request.
func caller(r *http.Request) *access.Token { return r.Context().Value(callerKey{}).(*access.Token) }

// authenticated passes on requests with a token. A server without tokens answers 404. A
// missing token and a wrong one get the same answer.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := s.current().Tokens
		if len(tokens) == 0 {
			s.fail(w, r, &problem.Problem{Status: http.StatusNotFound})
			return
		}
		presented := bearer(r)
		if t := access.Find(tokens, presented); t != nil {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, t)))
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.fail(w, r, s.wrongToken(w, r, presented))
	})
}

// errNotTheToken is the answer to a wrong or missing token.
var errNotTheToken = &problem.Problem{Status: http.StatusUnauthorized, Code: "wrong_token", Detail: "send the token as Authorization: Bearer TOKEN"}

// wrongToken returns the answer to a wrong or missing token.
func (s *Server) wrongToken(w http.ResponseWriter, r *http.Request, presented string) error {
	err := s.guess(r, presented)
	if p, ok := errors.AsType[*problem.Problem](err); ok && p.RetryAfter > 0 {
		w.Header().Set("Connection", "close") // the next guess costs a connection
	}
	return err
}

// guess counts a wrong token, and returns the error for its client. A request without a
// token is no guess: a page of another site can make a browser on this machine send one, and
// must not use up the guesses of the machine.
func (s *Server) guess(r *http.Request, presented string) error {
	if presented == "" {
		return errNotTheToken
	}
	wait, client, err := s.limits.Load().guesses.Add(r)
	if err != nil {
		return err
	}
	if wait == 0 {
		return errNotTheToken
	}
	s.o.Metrics.RequestRefused(metrics.WrongToken)
	if due, skipped := s.complaints.Due("wrong tokens"); due {
		s.o.Log.Warn("an address sends wrong tokens", "client", client, "skipped", skipped)
	}
	return &problem.Problem{
		Status: http.StatusTooManyRequests, Code: "too_many_guesses", RetryAfter: wait,
		Detail: "too many requests from this address had a wrong token; try again after the seconds in Retry-After",
	}
}
