package web

import (
	"context"
	"net/http"
)

// table is every route that there is: a line each. What stands in it under /api/ or
// /v1/ stands in openapi.json too; a test holds the two together.
func (s *Server) table() []route {
	return []route{
		{"GET /api/v1/trending", s.api(s.trending, "region", "category"), "trending"},
		{"GET /api/v1/videos/{id}", s.api(s.video), "videos"},
		{"GET /api/v1/search", s.api(s.search, "q", "region", "since", "limit", "cursor"), "search"},
		{"GET /api/v1/quota", s.api(s.quota), "quota"},
		{"GET /api/v1/regions", s.api(s.regions), "regions"},
		{"GET /api/v1/runs", s.api(s.runs, "job", "limit", "before"), "runs"},
		{"GET /api/v1/openapi.json", s.api(s.document), "openapi"},
		{"GET /{$}", http.HandlerFunc(s.board.Home), "pages"},
		{"GET /search", http.HandlerFunc(s.board.Search), "pages"},
		{"GET /regions/{region}", http.HandlerFunc(s.board.Region), "pages"},
		{"GET /static/{name}", http.HandlerFunc(s.board.Static), unlimited},

		{"GET /metrics", s.metrics.Handler(), unlimited},
		{"GET /livez", s.api(s.live), unlimited},
		{"GET /readyz", s.api(s.ready), unlimited},

		{"POST /v1/reserve", s.decision(s.reserve), unlimited},
		{"POST /v1/settle", s.decision(s.settle), unlimited},
		{"POST /v1/release", s.decision(s.release), unlimited},
		{"GET /v1/pools", s.decision(s.pools, "upstream", "account"), unlimited},
	}
}

// route is a line of the table.
type route struct {
	pattern string // as [http.ServeMux] has it; GET is HEAD too
	handler http.Handler
	// limit is the name of the limit per client that it may have of its own, see
	// limits.go. Without one in the price book it is counted with all others.
	limit string
}

// unlimited is the limit of what no client is counted for: what a page loads, what
// monitors ask, and what lets nobody in without a token.
const unlimited = "none"

// mux serves the table.
func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.table() {
		mux.Handle(r.pattern, r.handler)
	}
	s.otherwise(mux)
	return mux
}

// answer returns what a request is answered with, as JSON, or a [*Problem] or any
// other error.
type answer func(*http.Request) (any, error)

// api is the handler of an answer that takes these parameters in its query, and no
// others. It bounds how long the answer may take.
func (s *Server) api(h answer, parameters ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := only(r, parameters); err != nil {
			s.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.timeouts.Query)
		defer cancel()
		value, err := h(r.WithContext(ctx))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.reply(w, r, value)
	})
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
