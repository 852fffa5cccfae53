package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/metrics"
)

// The lowest lengths of a token: of one that is made today, and of the one without a name,
// which may be from an earlier version.
const (
	MinToken    = 32
	minNameless = 16
)

// Right is what the bearer of a token may do.
type Right string

// The rights of tokens.
const (
	Reserve Right = "reserve" // reserve, settle and release units of pools
	Read    Right = "read"    // read the state of the pools
	Limits  Right = "limits"  // charge the families, the limits of the caller's own clients, and read those of keys
	Operate Right = "operate" // act on the pages: adjust, block, unblock, reset; and change the limits of keys
)

// Rights are the rights of programs. Operate is for people, and has to be named.
var Rights = []Right{Reserve, Read, Limits}

// Token authenticates a caller of the decision service. Only its hash is kept.
type Token struct {
	name   string
	rights []Right
	sum    [sha256.Size]byte
	grant  *Grant // nil: no bounds but the rights
}

// NewToken returns a token of a name with these rights. Spend through it is that of its
// name. Without a name, the caller names the job alone. It returns an error if the text is
// too short or not printable ASCII.
func NewToken(name, text string, rights ...Right) (*Token, error) {
	least := MinToken
	if name == "" {
		least = minNameless
	}
	switch {
	case name == "" && slices.Contains(rights, Operate):
		return nil, errors.New("a token with the right operate needs a name, under which its actions are recorded")
	case text == "":
		return nil, errors.New("the token is empty; to make one: ingestor token new")
	case len(text) < least:
		return nil, fmt.Errorf("the token has %d characters and needs at least %d; to make one: ingestor token new", len(text), least)
	case strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }):
		return nil, errors.New("the token may hold only printable ASCII without spaces; to make one: ingestor token new")
	}
	return &Token{name: name, rights: rights, sum: sha256.Sum256([]byte(text))}, nil
}

// Same reports whether two tokens have the same text.
func (t *Token) Same(u *Token) bool { return t.sum == u.sum }

// owner returns the token that was presented, or nil. It compares with each in constant
// time.
func owner(tokens []*Token, presented string) (found *Token) {
	sum := sha256.Sum256([]byte(presented))
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
			found = t
		}
	}
	return found
}

// may returns an error if the token does not have a right.
func (t *Token) may(right Right) error {
	if slices.Contains(t.rights, right) {
		return nil
	}
	return &Problem{Status: http.StatusForbidden, Code: "no_right", Detail: fmt.Sprintf("the token %s does not have the right %s", cmp.Or(t.name, "without a name"), right)}
}

// job returns the name under which a job of the caller spends: it begins with that of the
// token, so that no caller spends in the name of another.
func (t *Token) job(named string) string {
	switch {
	case t.name == "":
		return named
	case named == "":
		return t.name
	}
	return t.name + "/" + named
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

// callerKey is the key of the caller's token in the context of a request.
type callerKey struct{}

// caller returns the token of an authenticated request.
func caller(r *http.Request) *Token { return r.Context().Value(callerKey{}).(*Token) }

// authenticated passes on requests with a token. A server without tokens answers 404. A
// missing token and a wrong one get the same answer.
func (s *Server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := s.current().Tokens
		if len(tokens) == 0 {
			s.fail(w, r, &Problem{Status: http.StatusNotFound})
			return
		}
		presented := bearer(r)
		if t := owner(tokens, presented); t != nil {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, t)))
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.fail(w, r, s.wrongToken(w, r, presented))
	})
}

// errNotTheToken is the answer to a wrong or missing token.
var errNotTheToken = &Problem{Status: http.StatusUnauthorized, Code: "wrong_token", Detail: "send the token as Authorization: Bearer TOKEN"}

// wrongToken returns the answer to a wrong or missing token.
func (s *Server) wrongToken(w http.ResponseWriter, r *http.Request, presented string) error {
	err := s.guess(r, presented)
	if p, ok := errors.AsType[*Problem](err); ok && p.RetryAfter > 0 {
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
	s.metrics.RequestRefused(metrics.WrongToken)
	if due, skipped := s.complaints.Due("wrong tokens"); due {
		s.log.Warn("an address sends wrong tokens", "client", client, "skipped", skipped)
	}
	return &Problem{
		Status: http.StatusTooManyRequests, Code: "too_many_guesses", RetryAfter: wait,
		Detail: "too many requests from this address had a wrong token; try again after the seconds in Retry-After",
	}
}
