package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/quota"
)

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
	var long *http.MaxBytesError
	if err := r.ParseForm(); errors.As(err, &long) {
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
