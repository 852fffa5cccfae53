package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Timeouts bound how long something may take. Zero is the default.
type Timeouts struct {
	Header  time.Duration // reading the header of a request; 5s
	Request time.Duration // reading all of a request; 15s
	Answer  time.Duration // from the end of the header to the end of the answer; 30s
	Idle    time.Duration // between two requests of a connection; 1m
	Query   time.Duration // asking the ledger and the catalog for one answer; 5s
	Search  time.Duration // a search, once it has its turn; 2s
	Stop    time.Duration // finishing open requests on shutdown; 10s
}

func (t Timeouts) complete() Timeouts {
	return Timeouts{
		Header:  cmp.Or(t.Header, 5*time.Second),
		Request: cmp.Or(t.Request, 15*time.Second),
		Answer:  cmp.Or(t.Answer, 30*time.Second),
		Idle:    cmp.Or(t.Idle, time.Minute),
		Query:   cmp.Or(t.Query, 5*time.Second),
		Search:  cmp.Or(t.Search, 2*time.Second),
		Stop:    cmp.Or(t.Stop, 10*time.Second),
	}
}

// Serve serves requests from a listener until ctx ends. Then open requests finish, unless
// abort ends too. Meanwhile it keeps the totals of each day, every hour.
func (s *Server) Serve(ctx, abort context.Context, l net.Listener) error {
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.keepDays(keeping)
	}()
	defer func() {
		stop()
		<-kept
	}()
	return s.serve(ctx, abort, l, s, s.crowd)
}

// ServeProbes is Serve for a listener of probes only, which no client of the server can
// crowd. It answers whatever host is asked for, because probes ask for an address. A server
// of [NewProbes] has /metrics there, too.
func (s *Server) ServeProbes(ctx, abort context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", routed{s.api(s.live)})
	mux.Handle("GET /readyz", routed{s.api(s.ready, "jobs")})
	if s.alone {
		mux.Handle("GET /metrics", routed{s.byAddress(s.ownSite(s.scraped()))})
	}
	return s.serve(ctx, abort, l, s.recovered(s.fallback(mux, false)), guard.NewCrowd(mostProbes, mostProbes, s.trusts, s.door.Closed))
}

// ServeSocket is Serve for a Unix socket, which says what is left of the pools.
func (s *Server) ServeSocket(ctx, abort context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /api/v1/quota", routed{s.api(s.quota)})
	return s.serve(ctx, abort, l, s.recovered(s.fallback(mux, false)), guard.NewCrowd(mostProbes, mostProbes, s.trusts, s.door.Closed))
}

const mostProbes = 64

func (s *Server) serve(ctx, abort context.Context, l net.Listener, handler http.Handler, crowd *guard.Crowd) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.o.Timeouts.Header,
		ReadTimeout:       s.o.Timeouts.Request,
		WriteTimeout:      s.o.Timeouts.Answer,
		IdleTimeout:       s.o.Timeouts.Idle,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug), // clients that hang up
	}
	return crowd.Serve(ctx, abort, server, l, s.o.Timeouts.Stop)
}

// keepDays keeps the totals of days until ctx ends.
func (s *Server) keepDays(ctx context.Context) {
	for {
		within, cancel := context.WithTimeout(ctx, s.o.Timeouts.Answer)
		err := s.board.KeepDays(within)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.o.Log.Warn("the totals of days could not be kept; the server tries again in an hour", "error", err)
		}
		if (quota.SystemClock{}).Sleep(ctx, time.Hour) != nil {
			return
		}
	}
}

// riversPolicy lets the pages of River load what they bring along, and nothing else.
const riversPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeRiver serves River's own pages, of the program riverui at this URL, from a listener of
// their own as [Server.Serve] does. A browser asks for a name, which does not count, and a
// password: a token with the right operate. Changes are logged with the token's name.
func (s *Server) ServeRiver(at *url.URL) func(ctx, abort context.Context, l net.Listener) error {
	riverui := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			r.Out.Header.Del("Authorization") // it may log it
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the browser hung up
			}
			if due, skipped := s.door.Due("River's pages"); due {
				s.o.Log.Warn("River's pages cannot be reached; start riverui, or remove river_ui", "at", at.Redacted(), "error", err, "skipped", skipped)
			}
			s.fail(w, r, &problem.Problem{Status: http.StatusBadGateway, Detail: "the program riverui does not answer; the server's log says where it should be"})
		},
	}
	handler := s.guarded(s.forOperators(riverui))
	return func(ctx, abort context.Context, l net.Listener) error {
		return s.serve(ctx, abort, l, handler, s.crowd)
	}
}

func (s *Server) forOperators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, presented, _ := r.BasicAuth()
		t := access.Find(s.current().Tokens, presented)
		if t == nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="Any name, and a token with the right operate as password", charset="UTF-8"`)
			s.fail(w, r, s.wrongToken(w, r, presented))
			return
		}
		if err := t.May(access.Operate); err != nil {
			s.fail(w, r, err)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.o.Log.Info("a person acted", "who", t.Name(), "action", r.Method, "target", r.URL.Path)
		}
		w.Header().Set("Content-Security-Policy", riversPolicy)
		next.ServeHTTP(w, r)
	})
}

// readyWithin bounds how long the ledger and the catalog have to answer. Probes give up
// after a second or a few.
const readyWithin = 2 * time.Second

// health is the answer to a probe. Probes ask for any host, so it names no job, folder or person.
type health struct {
	Status  string  `json:"status"`
	Verdict *inWord `json:"verdict,omitempty"`
}

// inWord is a verdict without its reasons.
type inWord struct {
	Level view.Level `json:"level"`
	Word  string     `json:"word"`
}

// live says that the process is up. It does not ask the ledger or the catalog: a restart
// would repair neither.
func (s *Server) live(*http.Request) (any, error) { return health{Status: "live"}, nil }

// ready says whether the server can do its work: the ledger and the catalog can be read and written. A server
// whose quota is used up is ready, and so is one whose jobs nobody runs, because callers need it all the same.
// Who wants an alarm for that, too, asks for /readyz?jobs=yes.
func (s *Server) ready(r *http.Request) (any, error) {
	jobs := r.URL.Query().Get("jobs")
	if jobs != "" && jobs != "yes" {
		return nil, &problem.Problem{Status: http.StatusBadRequest, Detail: "jobs can only be yes: then the answer is 503 if runs cannot do their work"}
	}
	is := s.standing(r.Context())
	outage := "the ledger cannot be read"
	if errors.As(is.Outage, new(*quota.ForgottenError)) {
		outage = "the ledger has forgotten what was spent"
	}
	for _, fault := range []struct {
		what string
		why  error
	}{
		{outage, is.Outage},
		{"the ledger cannot be written", is.Stuck},
		{"the catalog cannot be read", is.Unread},
		{"the catalog cannot be written", is.Unkept},
	} {
		if fault.why != nil { // the probe is told what is wrong, and the log why
			return nil, fmt.Errorf("%w: %w", unready(fault.what), fault.why)
		}
	}
	if s.alone {
		return health{Status: "ready"}, nil
	}
	v := is.Verdict()
	if jobs != "" && v.Level == view.Bad {
		return nil, unready("runs cannot do their work: " + v.Word)
	}
	return health{"ready", &inWord{v.Level, v.Word}}, nil
}

// standing returns the facts of now, or of a moment ago. Those who ask at once are told the same.
func (s *Server) standing(ctx context.Context) *verdict.State {
	s.asked.Lock()
	defer s.asked.Unlock()
	if is := s.stood; is != nil && s.o.Clock.Now().Sub(is.Now).Abs() < s.o.Share && s.stoodOf == s.current() {
		return is
	}
	apart, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin)
	defer cancel()
	s.stoodOf = s.current()
	s.stood = s.facts.Read(apart, &s.stoodOf.Sources)
	return s.stood
}

func unready(what string) error {
	return &problem.Problem{Status: http.StatusServiceUnavailable, Detail: what}
}
