package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const problemJSON = "application/problem+json"

// forPeople answers who asks with a browser in a page where next would in JSON: what is
// not there, or was asked for too often. What is made for programs stays as it is.
func (s *Server) forPeople(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !person(r) {
			next.ServeHTTP(w, r)
			return
		}
		held := &problemHeld{ResponseWriter: w}
		next.ServeHTTP(held, r)
		if held.status == 0 {
			return
		}
		w.Header().Set("Vary", "Accept")
		s.board.Problem(w, r, held.status, held.says())
	})
}

// person reports whether a request is that of a browser for a page: browsers name HTML
// before all else, and nothing else does.
func person(r *http.Request) bool {
	for _, programs := range []string{"/api/", "/v1/", "/metrics", "/livez", "/readyz"} {
		if strings.HasPrefix(r.URL.Path, programs) {
			return false
		}
	}
	return strings.HasPrefix(r.Header.Get("Accept"), "text/html")
}

// problemHeld keeps a problem from being sent; all else passes.
type problemHeld struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader implements [http.ResponseWriter].
func (p *problemHeld) WriteHeader(status int) {
	if p.Header().Get("Content-Type") == problemJSON {
		p.status = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *problemHeld) Write(b []byte) (int, error) {
	if p.status == 0 {
		return p.ResponseWriter.Write(b)
	}
	p.body = append(p.body, b...)
	return len(b), nil
}

// Unwrap is for [http.ResponseController].
func (p *problemHeld) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// says is the problem in a sentence for people.
func (p *problemHeld) says() string {
	wait, err := strconv.Atoi(p.Header().Get("Retry-After"))
	switch {
	case p.status == http.StatusNotFound:
		return "There is no such page"
	case p.status == http.StatusTooManyRequests && err == nil:
		return "You have asked too often; come again in " + (time.Duration(wait) * time.Second).String()
	}
	var is Problem
	if json.Unmarshal(p.body, &is) != nil {
		return http.StatusText(p.status)
	}
	text := cmp.Or(is.Detail, is.Title)
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}
