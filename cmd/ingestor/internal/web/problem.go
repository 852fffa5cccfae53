package web

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client hung up; returning would send status 200
	}
	p := s.problem(r, err)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(problem.Seconds(p.RetryAfter), 10))
	}
	s.tellLeft(w.Header(), p.Verdict)
	w.Header().Set("Content-Type", problemJSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) //nolint:errchkjson // who asked may have gone
}

// problem returns the problem of a request to send, and logs it if the server is at fault. While the ledger
// or the catalog is down, it logs each route once a minute.
func (s *Server) problem(r *http.Request, err error) *problem.Problem {
	p := *problem.From(err)
	p.Title = cmp.Or(p.Title, http.StatusText(p.Status))
	due, skipped := p.Status >= http.StatusInternalServerError, 0
	if p.Status == http.StatusServiceUnavailable {
		due, skipped = s.door.Due(r.Pattern)
	}
	if due {
		s.o.Log.Error("answer a request", "route", r.Pattern, "status", p.Status, "skipped", skipped, "error", err)
	}
	return &p
}

// tellLeft adds X-RateLimit-* of a verdict, if the server is told to.
func (s *Server) tellLeft(h http.Header, v *problem.Verdict) {
	if !s.o.XRateLimit || v == nil || v.Limit == 0 {
		return
	}
	wait := time.Duration(math.Ceil(v.RetryAfter)) * time.Second
	if v.Allowed && v.ResetAt != nil && v.At != nil {
		wait = v.ResetAt.Sub(*v.At)
	}
	h.Set("X-Ratelimit-Limit", strconv.FormatInt(v.Limit, 10))
	h.Set("X-Ratelimit-Remaining", strconv.FormatInt(v.Remaining, 10))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(max(problem.Seconds(wait), 0), 10))
}

const problemJSON = "application/problem+json"

// problemsAsPages sends errors as pages to browsers, such as 404 and 429. Programs get
// them as JSON.
func (s *Server) problemsAsPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromBrowser(r) {
			next.ServeHTTP(w, r)
			return
		}
		held := &heldProblem{ResponseWriter: w}
		next.ServeHTTP(held, r)
		if held.status == 0 {
			return
		}
		w.Header().Set("Vary", "Accept")
		s.board.Problem(w, r, held.status, held.sentence())
	})
}

// fromBrowser reports whether a browser asks for a page: only browsers accept HTML before
// anything else.
func fromBrowser(r *http.Request) bool {
	return !forPrograms(r) && strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}

// forPrograms reports whether a request is for a route that serves no people.
func forPrograms(r *http.Request) bool {
	return slices.ContainsFunc([]string{"/api/", "/v1/", "/metrics", "/livez", "/readyz"}, func(programs string) bool {
		return strings.HasPrefix(r.URL.Path, programs)
	})
}

// heldProblem holds back a problem and passes on any other answer.
type heldProblem struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (p *heldProblem) WriteHeader(status int) {
	if p.Header().Get("Content-Type") == problemJSON {
		p.status = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

func (p *heldProblem) Write(b []byte) (int, error) {
	if p.status == 0 {
		return p.ResponseWriter.Write(b)
	}
	p.body = append(p.body, b...)
	return len(b), nil
}

// Unwrap is for [http.ResponseController].
func (p *heldProblem) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *heldProblem) sentence() string {
	wait, err := strconv.Atoi(p.Header().Get("Retry-After"))
	switch {
	case p.status == http.StatusNotFound:
		return "There is no such page"
	case p.status == http.StatusTooManyRequests && err == nil:
		return "You have sent too many requests. Try again in " + (time.Duration(wait) * time.Second).String()
	}
	var sent problem.Problem
	if json.Unmarshal(p.body, &sent) != nil {
		return http.StatusText(p.status)
	}
	return sent.ForPeople()
}
