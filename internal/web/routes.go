package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// routes is every route that there is. What matches none is answered in the same
// form as any other error.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]answer{
		"GET /api/v1/quota":   s.quota,
		"GET /api/v1/regions": s.regions,
	} {
		mux.Handle(pattern, s.api(h))
	}
	return s.fallback(mux)
}

// answer returns what a request is answered with, as JSON, or a [*Problem] or any
// other error.
type answer func(*http.Request) (any, error)

// api is the handler of an answer. What is answered is encoded before the first byte
// of it leaves, so that an error is never half an answer.
func (s *Server) api(h answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := h(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.reply(w, r, value)
	})
}

// reply writes a value as JSON.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, value any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // it is sent as JSON, and nosniff
	if err := e.Encode(value); err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes()) // who asked may have gone
}

// fallback answers in our form where the multiplexer would in its own: no such path,
// or not with this method.
func (s *Server) fallback(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		said := unsaid{header: http.Header{}}
		h.ServeHTTP(&said, r)
		if allow := said.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
		}
		if to := said.header.Get("Location"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(said.status)
			return
		}
		s.fail(w, r, &Problem{Status: said.status})
	})
}

// unsaid takes an answer that is not sent.
type unsaid struct {
	header http.Header
	status int
}

func (u *unsaid) Header() http.Header         { return u.header }
func (u *unsaid) WriteHeader(status int)      { u.status = status }
func (u *unsaid) Write(b []byte) (int, error) { return len(b), nil }
