package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
)

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

// WriteHeader implements [http.ResponseWriter].
func (p *heldProblem) WriteHeader(status int) {
	if p.Header().Get("Content-Type") == problemJSON {
		p.status = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *heldProblem) Write(b []byte) (int, error) {
	if p.status == 0 {
		return p.ResponseWriter.Write(b)
	}
	p.body = append(p.body, b...)
	return len(b), nil
}

// Unwrap is for [http.ResponseController].
func (p *heldProblem) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// sentence returns the problem as a sentence for people.
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
