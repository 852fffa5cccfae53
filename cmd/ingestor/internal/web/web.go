// Package web is the HTTP server: charts, search and quota as JSON, pages for people, and
// reservations for callers in any language. It never calls an upstream.
//
// One table has every route (routes.go). An API handler returns a value or an error. One
// place turns both into JSON, an error into application/problem+json.
package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/pages"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Sources are the ledger, the catalog and the tokens of a server. [Server.Update] replaces
// them while it serves.
type Sources struct {
	view.Sources
	Tokens []*access.Token // of the callers of /v1/; none turns these routes off
	// Names are those of further tokens, such as those that only call through the proxy. No
	// caller without a name spends in the name of a token.
	Names []string

	kept *kept.Store // of answers from these sources
}

// DefaultMaxAge is the default of [Options.MaxAge].
const DefaultMaxAge = 26 * time.Hour

// Options are the settings of [New]; nil is legal.
type Options struct {
	Clock quota.Clock  // nil: the machine's
	Log   *slog.Logger // nil: slog.Default()

	// Metrics serve /metrics; nil makes new ones. They should be the observer of the
	// ledger too, so that they count its decisions.
	Metrics *metrics.Metrics
	// Tracer traces requests and reservations; nil traces nothing.
	Tracer Tracer

	// Refused counts the calls of /v1/reserve and Envoy that the ledger refused; nil counts
	// nothing.
	Refused *refusals.Tally
	// Budgets bound what tokens spend on a day; nil bounds nothing.
	Budgets access.Budgets
	// MaxAge is the age above which a chart is stale; zero is DefaultMaxAge.
	MaxAge time.Duration
	// Folders are those whose disks must not be full.
	Folders []string
	// TrustedProxies are the proxies whose header on the client's address counts,
	// X-Forwarded-For. The host is always that of the request, which a proxy must pass on.
	// Empty trusts none.
	TrustedProxies []netip.Prefix
	// AnyHost accepts requests for any host name. Otherwise the server accepts only
	// loopback names and Hosts, so that a web page whose own name resolves to an address of
	// the server cannot read its answers (DNS rebinding).
	AnyHost bool
	Hosts   []string // without ports

	// XRateLimit adds X-RateLimit-Limit, -Remaining and -Reset, in seconds, for clients that
	// know no other headers.
	XRateLimit bool

	// Share is how long clients are given the same answer if its figures change with the
	// time, as those of the first page; zero is 1s, and less is not at all.
	Share time.Duration

	// Connections bounds the open connections; zero is DefaultConnections.
	Connections int
	// ConnectionsPerClient bounds those of one address, and the requests that a client has
	// under way, also behind a trusted proxy; zero is a quarter of Connections.
	ConnectionsPerClient int
	// Timeouts bound requests and answers; zero ones are the default.
	Timeouts Timeouts
}

// Server is the HTTP server.
type Server struct {
	sources    atomic.Pointer[Sources]
	limits     atomic.Pointer[limits]
	clock      quota.Clock
	log        *slog.Logger
	metrics    *metrics.Metrics
	tracer     Tracer
	refused    *refusals.Tally
	budgets    access.Budgets
	maxAge     time.Duration
	proxies    []netip.Prefix
	timeouts   Timeouts
	xRateLimit bool
	alone      bool // it is for probes and metrics only
	anyHost    bool
	hosts      []string
	facts      *verdict.Reader
	asked      sync.Mutex // guards what probes were told last
	stood      *verdict.State
	stoodOf    *Sources
	board      *pages.Board
	handler    http.Handler

	complaints *guard.Complaints
	crowd      *guard.Crowd
	searches   queue
	histories  queue
	share      time.Duration
	acted      atomic.Int64 // what people did on the pages
	forwarded  sync.Once    // the log says that a proxy is not trusted
}

// New returns a server of these sources.
func New(src Sources, o *Options) (*Server, error) {
	if src.Ledger == nil || src.Catalog == nil || src.Runner == nil {
		return nil, errors.New("a server needs a ledger, a catalog and a runner")
	}
	if o == nil {
		o = &Options{}
	}
	s := &Server{
		clock: o.Clock, log: o.Log, maxAge: o.MaxAge, metrics: o.Metrics, tracer: o.Tracer, refused: o.Refused, budgets: o.Budgets, proxies: o.TrustedProxies, timeouts: o.Timeouts.complete(),
		xRateLimit: o.XRateLimit, anyHost: o.AnyHost, hosts: o.Hosts, share: cmp.Or(o.Share, time.Second),
	}
	if s.clock == nil {
		s.clock = quota.SystemClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.complaints = guard.NewComplaints(s.clock)
	most := cmp.Or(o.Connections, DefaultConnections)
	s.crowd = guard.NewCrowd(most, cmp.Or(o.ConnectionsPerClient, max(most/4, 1)), s.trusts, s.connectionClosed)
	if s.maxAge == 0 {
		s.maxAge = DefaultMaxAge
	}
	if s.tracer == nil {
		s.tracer = untraced{}
	}
	s.facts = verdict.NewReader(&verdict.Options{Clock: s.clock, MaxAge: s.maxAge, Timeout: s.timeouts.Query, Writes: true, Folders: o.Folders})
	s.board = pages.New(func() view.Sources { return s.current().Sources }, &pages.Options{
		Clock: s.clock, Log: s.log, Facts: s.facts, Searching: s.searching, Operated: s.operated, Keep: s.keepPage,
	})
	if s.metrics == nil {
		s.metrics = metrics.New(&metrics.Options{Log: s.log})
	}
	s.metrics.Judge(s.facts)
	if err := s.Update(src, src.Ledger.Book()); err != nil {
		return nil, err
	}
	mux := s.mux()
	s.handler = s.tracer.Requests(s.guarded(s.fallback(mux, true)), func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	})
	return s, nil
}

// NewProbes returns a server that only answers probes and /metrics, by [Server.ServeProbes],
// for a process that serves something else and has no catalog.
func NewProbes(l *quota.Ledger, o *Options) *Server {
	s := &Server{clock: o.Clock, log: o.Log, metrics: o.Metrics, timeouts: o.Timeouts.complete(), hosts: o.Hosts, alone: true}
	s.complaints = guard.NewComplaints(s.clock)
	s.facts = verdict.NewReader(&verdict.Options{Clock: s.clock, Timeout: readyWithin, Writes: true, Folders: o.Folders})
	src := Sources{Sources: view.Sources{Ledger: l}}
	s.sources.Store(&src)
	s.metrics.SetSources(src.Sources)
	return s
}

// Update replaces the sources, and the price book of their ledger, from the next request
// on. Open requests finish with the old sources, so keep those open for a while. The limits
// per client become those of the price book and start again. If the book is refused,
// everything stays as it was.
func (s *Server) Update(src Sources, book *quota.Book) error {
	l, err := s.newLimits(book, src.Ledger.Admin())
	if err != nil {
		return err
	}
	if err := src.Ledger.SetBook(book); err != nil {
		return err
	}
	src.kept = kept.NewStore(kept.Options{Now: s.clock.Now, Most: mostKept, Each: mostEach})
	s.sources.Store(&src)
	s.limits.Store(l)
	s.metrics.SetSources(src.Sources)
	return nil
}

// trusts reports whether an address is that of a trusted proxy.
func (s *Server) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// current returns the sources. A request calls it once, so that it sees one state.
func (s *Server) current() *Sources { return s.sources.Load() }
