package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
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

var errNotTheToken = &problem.Problem{Status: http.StatusUnauthorized, Code: "wrong_token", Detail: "send the token as Authorization: Bearer TOKEN"}

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
	return s.door.Guess(r, errNotTheToken)
}

// mayCall returns an error if a token may not make a call, on any way in. It completes the
// call: it is the token's, and its job begins with the name of the token.
func (s *Server) mayCall(t *access.Token, call *quota.Call) error {
	right := access.Reserve
	if call.Family != "" {
		right = access.Limits
	}
	if err := t.May(right); err != nil {
		return err
	}
	src := s.current()
	if first, _, _ := strings.Cut(call.Job, "/"); t.Name() == "" && (slices.Contains(src.Names, first) || slices.ContainsFunc(src.Tokens, func(u *access.Token) bool { return u.Name() != "" && u.Name() == first })) {
		return t.Deny("job", call.Job) // the spend and the budget of that token
	}
	call.Job, call.Owner = t.Job(call.Job), t.Owner()
	g := t.Grant()
	if g == nil {
		return nil
	}
	if ups := src.Ledger.Book().Metered(); call.Upstream == "" && call.Family == "" && len(ups) == 1 {
		call.Upstream = ups[0] // the one that the ledger would take
	}
	what, name := g.Forbids(call.Class, call.Account)
	switch {
	case call.Family != "" && what != "class": // the right to charge limits is for families
	case call.Family == "" && call.Upstream != "" && !slices.Contains(g.Upstreams, call.Upstream):
		return t.Deny("upstream", call.Upstream)
	case len(g.Methods) > 0 && !slices.Contains(g.Methods, call.Method) && call.Family == "":
		return t.Deny("method", cmp.Or(call.Method, "of explicit units"))
	case what != "":
		return t.Deny(what, name)
	}
	return nil
}

func (s *Server) budget(ctx context.Context, t *access.Token) access.Budget {
	if g := t.Grant(); s.o.Budgets == nil || g == nil || g.Budget.Units() == 0 {
		return nil
	}
	return s.o.Budgets.Today(ctx, t.Name())
}

// expected returns the units that a call takes, as far as the price book knows it before.
func expected(costs *quota.Book, call *quota.Call) (sum int64) {
	sum, _ = charged(costs, call)
	return sum
}

// charged returns the units of a call as expected does, and for how long its slots count; 0 if it takes none.
func charged(costs *quota.Book, call *quota.Call) (sum int64, ttl time.Duration) {
	units := map[string]int64(call.Charges)
	u := costs.Upstreams[call.Upstream]
	if u == nil {
		return 0, 0
	}
	if m := u.Methods[call.Method]; units == nil && m != nil {
		units = m.Charges
	}
	for pool, n := range units {
		if p := u.Pools[pool]; p != nil && p.Windows[0].InFlight() {
			ttl = max(ttl, p.Windows[0].Per)
		} else if p != nil {
			sum += max(n, 0)
		}
	}
	return sum, ttl
}

const codeBudget = "budget"

// overBudget returns the answer to a call that would cost more than is left of a budget.
func (s *Server) overBudget(err error) error {
	now := s.o.Clock.Now().UTC()
	return &problem.Problem{
		Status: http.StatusTooManyRequests, Code: codeBudget, RetryAfter: now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now),
		Detail: "the daily budget of the token is used up: " + err.Error(),
	}
}

// operated reports whether a token lets a person act on the pages.
func (s *Server) operated() bool {
	return slices.ContainsFunc(s.current().Tokens, func(t *access.Token) bool { return t.May(access.Operate) == nil })
}

// act does what a person asks for with the form of a page. The form holds the token, so that
// no other site can make a browser send one that takes effect.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	if !s.operated() {
		s.fail(w, r, &problem.Problem{Status: http.StatusNotFound})
		return
	}
	if err := r.ParseForm(); errors.As(err, new(*http.MaxBytesError)) {
		s.fail(w, r, &problem.Problem{Status: http.StatusRequestEntityTooLarge})
		return
	} else if err != nil {
		s.fail(w, r, problem.BadRequest("the form cannot be read"))
		return
	}
	presented, who := r.PostForm.Get("token"), ""
	r.PostForm.Del("token")
	t := access.Find(s.current().Tokens, presented)
	switch {
	case t == nil:
		if err := s.wrongToken(w, r, presented); err != errNotTheToken { //nolint:errorlint // as it is
			s.fail(w, r, err)
			return
		}
	case t.May(access.Operate) == nil:
		who = t.Name()
	}
	if pool, err := quota.ParsePool(strings.TrimSpace(r.PostForm.Get("pool"))); who != "" && err == nil && !t.Sees(pool.Upstream, pool.Account) {
		s.fail(w, r, t.Deny("pool", pool.String()))
		return
	}
	if who != "" {
		defer s.acted.Add(1) // whoever acted sees it on the next page
	}
	s.board.Act(w, r, who)
}
