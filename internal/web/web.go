// Package web serves what was fetched and how the quota stands, over HTTP: feeds and
// search for programs, pages for people, and a limiter for callers in any language.
// Nothing in it calls an upstream.
//
// Every route stands in one table (routes.go). An API handler returns a value or an
// error; both become JSON in one place, an error as application/problem+json.
package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/metrics"
	"github.com/headroom-quota/headroom/internal/web/pages"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Sources are what a server tells of. They can be exchanged while it serves, as a
// whole: see [Server.Update].
type Sources struct {
	view.Sources
	Token *Token // of those who reserve over HTTP; nil: nobody does
}

// DefaultMaxAge is how old a chart may be that is not stale.
const DefaultMaxAge = 26 * time.Hour

// Options are what [New] can be told; nil is legal.
type Options struct {
	Clock quota.Clock  // nil: the machine's
	Log   *slog.Logger // nil: slog.Default()

	// Metrics are what /metrics answers; nil makes some. They should be the observer
	// of the ledger, so that its decisions are counted.
	Metrics *metrics.Metrics
	// Tracer follows requests and reservations; nil is nobody.
	Tracer Tracer

	// MaxAge is how old a chart may be that is not stale; zero is DefaultMaxAge.
	MaxAge time.Duration
	// TrustedProxies are believed about the address of a client and the name of the
	// host; nobody is, if it is empty.
	TrustedProxies []netip.Prefix
	// AnyHost answers whatever host a request names. Without it only requests to
	// this machine by its loopback names are answered: a page of the web that has its
	// own name resolved to 127.0.0.1 is not to read what is served here.
	AnyHost bool

	// Connections are how many clients may be connected at once; zero is
	// DefaultConnections.
	Connections int
	// Timeouts are how long clients and questions may take; zero ones are the
	// default.
	Timeouts Timeouts
}

// Server answers requests.
type Server struct {
	sources  atomic.Pointer[Sources]
	limits   atomic.Pointer[limits]
	clock    quota.Clock
	log      *slog.Logger
	metrics  *metrics.Metrics
	tracer   Tracer
	maxAge   time.Duration
	proxies  []netip.Prefix
	timeouts Timeouts
	most     int // connections
	board    *pages.Board
	handler  http.Handler

	complaints complaints
}

// New returns a server that tells of the sources.
func New(src Sources, o *Options) (*Server, error) {
	if src.Ledger == nil || src.Catalog == nil || src.Runner == nil {
		return nil, errors.New("a server needs a ledger, a catalog and a runner to tell of")
	}
	if o == nil {
		o = &Options{}
	}
	s := &Server{clock: o.Clock, log: o.Log, maxAge: o.MaxAge, metrics: o.Metrics, tracer: o.Tracer, proxies: o.TrustedProxies, timeouts: o.Timeouts.complete(), most: cmp.Or(o.Connections, DefaultConnections)}
	if s.clock == nil {
		s.clock = quota.SystemClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.complaints = complaints{clock: s.clock, log: s.log, of: map[string]*complaint{}}
	if s.maxAge == 0 {
		s.maxAge = DefaultMaxAge
	}
	if s.tracer == nil {
		s.tracer = untraced{}
	}
	s.board = pages.New(func() view.Sources { return s.from().Sources }, &pages.Options{
		Clock: s.clock, Log: s.log, MaxAge: s.maxAge, Timeout: s.timeouts.Query,
	})
	if s.metrics == nil {
		s.metrics = metrics.New(&metrics.Options{Log: s.log})
	}
	if err := s.Update(src, src.Ledger.Book()); err != nil {
		return nil, err
	}
	mux := s.mux()
	s.handler = s.tracer.Requests(s.guarded(s.fallback(mux), o), func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	})
	return s, nil
}

// Update makes the server tell of other sources, and their ledger go by another price
// book, from the next request on. Requests under way finish with the old ones, so those
// must stay open a while. The limits per client become those of the price book, and begin
// anew; if the book is refused, all stays as it was.
func (s *Server) Update(src Sources, book *quota.Book) error {
	l, err := s.newLimits(book)
	if err != nil {
		return err
	}
	if err := src.Ledger.SetBook(book); err != nil {
		return err
	}
	s.sources.Store(&src)
	s.limits.Store(l)
	s.metrics.Tell(src.Sources)
	return nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// from are the sources of one request: to be asked once, so that it tells of one state.
func (s *Server) from() *Sources { return s.sources.Load() }
