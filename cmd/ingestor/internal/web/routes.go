package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
)

// table returns every route, one in a line. openapi.json describes those under /api/ and
// /v1/; a test compares the two.
func (s *Server) table() []route {
	return []route{
		{"GET /api/v1/trending", s.feed(atOnce, s.trending, "region", "category"), "trending"},
		{"GET /api/v1/videos/{id}", s.feed(atOnce, s.video), "videos"},
		{"GET /api/v1/search", s.feed(s.searching, s.search, "q", "region", "since", "limit", "cursor"), "search"},
		{"GET /api/v1/quota", s.api(s.quota), "quota"},
		{"GET /api/v1/regions", s.feed(atOnce, s.regions), "regions"},
		{"GET /api/v1/runs", s.feed(atOnce, s.runs, "job", "limit", "before"), "runs"},
		{"GET /api/v1/openapi.json", s.feed(atOnce, s.document), "openapi"},
		{"GET /{$}", s.sharing(atOnce, s.board.Home), "pages"},
		{"GET /search", http.HandlerFunc(s.board.Search), "pages"},
		{"GET /regions", s.sharing(atOnce, s.board.Regions), "pages"},
		{"GET /runs", s.sharing(atOnce, s.board.Runs), "pages"},
		{"GET /runs/{id}", http.HandlerFunc(s.board.OneRun), "pages"},
		{"GET /history", s.sharing(s.summing, s.board.History), "pages"},
		{"GET /csv/{figure}", s.sharing(s.summing, s.board.CSV), "pages"},
		{"GET /regions/{region}", http.HandlerFunc(s.board.Region), "pages"},
		{"GET /act/{action}", http.HandlerFunc(s.board.Form), "pages"},
		{"POST /act/{action}", http.HandlerFunc(s.act), "pages"},
		{"GET /fleet", http.HandlerFunc(s.board.Fleet), "pages"},
		{"GET /static/{name}", http.HandlerFunc(s.board.Static), unlimited},

		{"GET /metrics", s.scraped(), unlimited},
		{"GET /livez", s.api(s.live), unlimited},
		{"GET /readyz", s.api(s.ready, "jobs"), unlimited},

		{"POST /v1/reserve", s.decision(nil, s.reserve), unlimited},
		{"POST /v1/settle", s.decision(rights{access.Reserve}, s.settle), unlimited},
		{"POST /v1/release", s.decision(rights{access.Reserve}, s.release), unlimited},
		{"POST /v1/refused", s.decision(rights{access.Reserve}, s.refusal), unlimited},
		{"GET /v1/limits/{family}/{key}", s.decision(rights{access.Limits, access.Operate}, s.keyLimit), unlimited},
		{"PUT /v1/limits/{family}/{key}", s.decision(rights{access.Operate}, s.setLimit), unlimited},
		{"DELETE /v1/limits/{family}/{key}", s.decision(rights{access.Operate}, s.removeLimit, "reason"), unlimited},
		{"GET /v1/pools", s.decision(rights{access.Read}, s.pools, "upstream", "account"), unlimited},
	}
}

type rights = []access.Right

type route struct {
	pattern string // of [http.ServeMux]; GET includes HEAD
	handler http.Handler
	// limit names the route's own limit per client, see limits.go. If the price book has
	// none of that name, the limit of all routes counts.
	limit string
}

// unlimited is the limit of routes that count for no client: files of pages, monitoring,
// and routes that need a token.
const unlimited = "none"

func (s *Server) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.table() {
		mux.Handle(r.pattern, routed{s.limited(r.limit, r.handler)})
	}
	return mux
}

// answer returns the value to send as JSON, or an error, which may be a [*problem.Problem].
type answer func(*http.Request) (any, error)

// api returns the handler of an answer. It allows only these parameters in the query, and
// bounds the time for the answer.
func (s *Server) api(h answer, parameters ...string) http.Handler {
	return s.within(s.o.Timeouts.Query, h, parameters...)
}

func (s *Server) within(longest time.Duration, h answer, parameters ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkQuery(r, parameters); err != nil {
			s.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), longest)
		defer cancel()
		value, err := h(r.WithContext(ctx))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.reply(w, r, value)
	})
}

// fallback sends the multiplexer's own answers (unknown path, wrong method) in our form, and
// its redirects without a body, which would have text of the request in HTML. Routes answer
// by themselves, within their own limits. All other requests count for the limit of all routes,
// if there are limits.
func (s *Server) fallback(mux *http.ServeMux, limits bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, _ := mux.Handler(r)
		if _, is := h.(routed); is {
			mux.ServeHTTP(w, r)
			return
		}
		own := kept.Record(h, r)
		missed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if allow := own.Header().Get("Allow"); allow != "" {
				w.Header().Set("Allow", allow)
			}
			if to := own.Header().Get("Location"); to != "" {
				w.Header().Set("Location", to)
				w.WriteHeader(own.Status)
				return
			}
			s.fail(w, r, &problem.Problem{Status: own.Status})
		})
		if !limits {
			missed.ServeHTTP(w, r)
			return
		}
		if own.Status == http.StatusMethodNotAllowed && strings.HasPrefix(r.URL.Path, "/v1/") { // nobody learns without a token which one is right
			s.authenticated(missed).ServeHTTP(w, r)
			return
		}
		admit(s.limits.Load().missed, w, r, missed)
	})
}

// routed is the handler of a route, unlike those of the multiplexer.
type routed struct{ http.Handler }

// openAPI describes the routes under /api/ and /v1/.
//
//go:embed openapi.json
var openAPI json.RawMessage

func (s *Server) document(*http.Request) (any, error) { return openAPI, nil }
