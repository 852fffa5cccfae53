package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// MinToken is the lowest length of a token.
const MinToken = 16

// Token authenticates callers of the decision service. Only its hash is kept.
type Token struct{ sum [sha256.Size]byte }

// NewToken returns a token, or an error if the text is too short or not printable ASCII.
func NewToken(text string) (*Token, error) {
	switch {
	case text == "":
		return nil, errors.New("the token is empty; to make one: openssl rand -hex 32")
	case len(text) < MinToken:
		return nil, fmt.Errorf("the token has %d characters and needs at least %d; to make one: openssl rand -hex 32", len(text), MinToken)
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("the token may hold only printable ASCII without spaces; to make one: openssl rand -hex 32")
	}
	return &Token{sha256.Sum256([]byte(text))}, nil
}

// matches compares in constant time.
func (t *Token) matches(presented string) bool {
	sum := sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

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

// authenticated passes on requests with the token. A server without a token answers 404.
// A missing token and a wrong one get the same answer.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := s.current().Token
		if token == nil {
			s.fail(w, r, &Problem{Status: http.StatusNotFound})
			return
		}
		if err := s.limits.Load().guesses.check(r, token); err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			s.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
