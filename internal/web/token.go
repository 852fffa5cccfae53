package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// MinToken is how long a token must be.
const MinToken = 16

// Token is what callers of the decision service have to present. Only its hash is kept.
type Token struct{ sum [sha256.Size]byte }

// NewToken returns the token that a text is.
func NewToken(text string) (*Token, error) {
	switch {
	case text == "":
		return nil, errors.New("the token is empty; `openssl rand -hex 32` makes one")
	case len(text) < MinToken:
		return nil, fmt.Errorf("the token has %d characters, and must have %d at least; `openssl rand -hex 32` makes one", len(text), MinToken)
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("a token has no spaces and no other characters than those of ASCII; `openssl rand -hex 32` makes one")
	}
	return &Token{sha256.Sum256([]byte(text))}, nil
}

// is compares in a time that depends on what is presented alone: hashes have one length.
func (t *Token) is(presented string) bool {
	sum := sha256.Sum256([]byte(presented))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// bearer is the token that a request presents; "" if none, or not one alone.
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

// authenticated asks next for requests that present the token. Without one these
// routes are as if they were not there. Absent, wrong and of another length are
// answered alike.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := s.from().Token
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
