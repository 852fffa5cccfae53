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
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/traces"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/pages"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/places"
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
	// Traces has spans of requests and reservations; nil has none.
	Traces *traces.Traces

	// Refused counts the calls of /v1/reserve and Envoy that the ledger refused; nil counts
	// nothing.
	Refused *refusals.Tally
	// Budgets bound what tokens spend on a day; nil bounds nothing.
	Budgets access.Budgets
	// MaxAge is the age above which a chart is stale; zero is DefaultMaxAge.
	MaxAge time.Duration
	// Folders are those whose disks must not be full.
	Folders []string
	// Typed are the flags of commands to type: see [verdict.State].
	Typed string
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

	// Delay is how long a request waits for the limit of its client, in place of a 429. Zero means
	// no delay.
	Delay time.Duration

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
	o       Options
	sources atomic.Pointer[Sources]
	limits  atomic.Pointer[limits]
	alone   bool // it is for probes and metrics only
	facts   *verdict.Reader
	asked   sync.Mutex // guards what probes were told last
	stood   *verdict.State
	stoodOf *Sources
	board   *pages.Board
	handler http.Handler

	door      *guard.Door
	crowd     *guard.Crowd
	reserving *places.Places[waiting] // places of calls that wait for their units
	searches  queue
	histories queue
	acted     atomic.Int64 // what people did on the pages
	forwarded sync.Once    // the log says that a proxy is not trusted
}

func newServer(o *Options) *Server {
	s := &Server{
		o:         *cmp.Or(o, &Options{}),
		reserving: places.New[waiting](mostReserving),
		searches:  queue{name: metrics.Searches, of: "searches"},
		histories: queue{name: metrics.Histories, of: "requests for the history"},
	}
	s.o.Clock, s.o.Log = cmp.Or[quota.Clock](s.o.Clock, quota.SystemClock{}), cmp.Or(s.o.Log, slog.Default())
	s.o.Timeouts = s.o.Timeouts.complete()
	if s.o.Metrics == nil {
		s.o.Metrics = metrics.New(&metrics.Options{Log: s.o.Log})
	}
	s.door = guard.NewDoor("ingestor serve", s.o.Clock, s.o.Log, s.o.Metrics)
	return s
}

// New returns a server of these sources.
func New(src Sources, o *Options) (*Server, error) {
	if src.Ledger == nil || src.Catalog == nil || src.Runner == nil {
		return nil, errors.New("a server needs a ledger, a catalog and a runner")
	}
	s := newServer(o)
	s.o.MaxAge, s.o.Share = cmp.Or(s.o.MaxAge, DefaultMaxAge), cmp.Or(s.o.Share, time.Second)
	most := cmp.Or(s.o.Connections, DefaultConnections)
	s.crowd = guard.NewCrowd(most, cmp.Or(s.o.ConnectionsPerClient, max(most/4, 1)), s.trusts, s.door.Closed)
	s.facts = verdict.NewReader(&verdict.Options{Clock: s.o.Clock, MaxAge: s.o.MaxAge, Timeout: s.o.Timeouts.Query, Writes: true, Folders: s.o.Folders, Typed: s.o.Typed})
	s.board = pages.New(func() view.Sources { return s.current().Sources }, &pages.Options{
		Clock: s.o.Clock, Log: s.o.Log, Facts: s.facts, Searching: s.searching, Operated: s.operated,
	})
	s.o.Metrics.Judge(s.facts)
	if err := s.Update(src, src.Ledger.Book()); err != nil {
		return nil, err
	}
	mux := s.mux()
	s.handler = s.o.Traces.Requests(s.guarded(s.fallback(mux, true)), func(r *http.Request) string {
		_, pattern := mux.Handler(r)
		return pattern
	})
	return s, nil
}

// NewProbes returns a server that only answers probes and /metrics, by [Server.ServeProbes],
// for a process that serves something else and has no catalog.
func NewProbes(l *quota.Ledger, o *Options) *Server {
	s := newServer(o)
	s.alone = true
	s.facts = verdict.NewReader(&verdict.Options{Clock: s.o.Clock, Timeout: readyWithin, Writes: true, Folders: s.o.Folders, Typed: s.o.Typed})
	src := Sources{Sources: view.Sources{Ledger: l}}
	s.sources.Store(&src)
	s.o.Metrics.SetSources(src.Sources)
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
	src.kept = kept.NewStore(kept.Options{Now: s.o.Clock.Now, Most: mostKept, Each: mostEach})
	s.sources.Store(&src)
	s.limits.Store(l)
	s.door.LimitGuesses(book.Families[guard.GuessFamily], l.missed.Client)
	s.o.Metrics.SetSources(src.Sources)
	return nil
}

func (s *Server) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(s.o.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// current returns the sources. A request calls it once, so that it sees one state.
func (s *Server) current() *Sources { return s.sources.Load() }
