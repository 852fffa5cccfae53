// Package metrics reports the state of a ledger and a catalog, and the decisions of this
// process's ledger, to Prometheus.
//
// Metrics named ingestor_ come from the catalog, and those named headroom_ from the ledger.
// A scrape reads pools, spend, runs and freshness, so it includes the work of other
// processes. Counters and the histogram cover this process only. Times are timestamps, not
// ages, because a file may be read later than it is written.
//
// No label holds text from outside, such as a client's address, a query or a title. The
// number of values that callers choose is bounded.
package metrics

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/kept"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/observe/prom"
)

// Options are the settings of [New]; nil is legal.
type Options struct {
	Log *slog.Logger // nil: slog.Default()

	// Timeout bounds the wait for the ledger and the catalog; zero is 5s. One that does
	// not answer in time is reported as down.
	Timeout time.Duration

	// Share is how long those who scrape are given the same answer; zero is 1s, and less
	// is not at all.
	Share time.Duration
}

// Metrics serves metrics and writes them to a file. It is the [quota.Observer] of the
// ledger whose decisions it counts. It is safe for concurrent use.
type Metrics struct {
	*prom.Decisions
	sources atomic.Pointer[view.Sources]
	facts   atomic.Pointer[verdict.Reader]
	state   *prometheus.Registry // from the ledger, the catalog and the fleet
	process *prometheus.Registry // of this process
	away    turnedAway

	o   Options
	all *shared
}

var _ quota.Observer = (*Metrics)(nil)

// New returns metrics that count decisions. To read a ledger and a catalog too, give it
// their sources: see [Metrics.SetSources].
func New(o *Options) *Metrics {
	m := &Metrics{
		o: *cmp.Or(o, &Options{}), Decisions: prom.New(),
		state: prometheus.NewRegistry(), process: prometheus.NewRegistry(), away: newTurnedAway(),
	}
	m.o.Log, m.o.Timeout = cmp.Or(m.o.Log, slog.Default()), cmp.Or(m.o.Timeout, 5*time.Second)
	m.all = &shared{Gatherer: prometheus.Gatherers{m.state, m.process}, share: cmp.Or(m.o.Share, time.Second)}
	m.state.MustRegister(state{m})
	m.process.MustRegister(m.Decisions, m.away.connections, m.away.requests, m.away.accepts)
	m.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// SetSources replaces the ledger and the catalog, if there is one, that the next scrape reads.
// The outcomes of its decisions are there from now on, at 0.
func (m *Metrics) SetSources(src view.Sources) {
	m.sources.Store(&src)
	if src.Ledger != nil {
		m.Expect(src.Ledger.Book())
	}
}

// Judge has the next scrapes say what a verdict says, from these facts.
func (m *Metrics) Judge(facts *verdict.Reader) { m.facts.Store(facts) }

// maxScrapes bounds how many answers with chosen metrics are made at once; further scrapes of
// that kind get status 503.
const maxScrapes = 40

// Handler serves all metrics to Prometheus, or those that a request names.
func (m *Metrics) Handler() http.Handler {
	o := promhttp.HandlerOpts{
		ErrorLog:           slog.NewLogLogger(m.o.Log.Handler(), slog.LevelError),
		ErrorHandling:      promhttp.ContinueOnError,
		DisableCompression: true, // kept answers are
	}
	all := promhttp.HandlerFor(m.all, o)
	o.MaxRequestsInFlight = maxScrapes
	return m.all.text(all, promhttp.HandlerFor(m.all, o))
}

// WriteFile replaces a file for node_exporter's textfile collector in one step. The file
// has the metrics from the ledger and the catalog. It has no counters, which would be
// useless after the process ends.
func (m *Metrics) WriteFile(path string) error {
	if err := prometheus.WriteToTextfile(path, m.state); err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	return nil
}

// state reads the ledger and the catalog at each scrape.
type state struct{ *Metrics }

func (s state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range gauges {
		to <- d
	}
}

// verdictLevel is for one alert that is about everything.
var verdictLevel = gauge("ingestor_verdict", "Whether the verdict of the first page is of this level: good, warn (look soon) or bad (runs cannot do their work).", "level")

// Collect implements [prometheus.Collector]. If the ledger or the catalog cannot be read,
// all its metrics are missing and it is reported as down. One that cannot be written is reported as down, too.
func (s state) Collect(to chan<- prometheus.Metric) {
	src := s.sources.Load()
	if src == nil {
		return
	}
	type source struct {
		up   *prometheus.Desc
		read func(context.Context, *view.Sources) (readings, error)
	}
	var found readings
	if src.Counting != nil {
		found.counting(src.Counting.State())
	}
	stuck := map[string]error{}
	if facts := s.facts.Load(); facts != nil && src.Catalog != nil {
		soon, done := context.WithTimeout(context.Background(), s.o.Timeout/2)
		is := facts.Read(soon, src)
		done()
		stuck["ledger"], stuck["catalog"] = is.Stuck, is.Unkept
		now := is.Verdict().Level
		for _, level := range []view.Level{view.Good, view.Warn, view.Bad} {
			found.add(verdictLevel, truth(level == now), string(level))
		}
	}
	found.send(to)
	sources := map[string]source{"ledger": {ledgerUp, readLedger}}
	if src.Catalog != nil {
		sources["catalog"] = source{catalogUp, readCatalog}
	}
	if src.Fleet != nil {
		sources["fleet"] = source{fleetUp, readFleet}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	var all sync.WaitGroup
	for name, source := range sources {
		all.Go(func() {
			var found readings
			err := verdict.Within(ctx, func() (func(), error) { // a disk may answer when nobody waits any more
				read, err := source.read(ctx, src)
				return func() { found = read }, err
			})
			if err != nil {
				s.o.Log.Warn("metrics: the "+name+" cannot be read", "error", err)
			} else if stuck[name] != nil {
				s.o.Log.Warn("metrics: the "+name+" cannot be written", "error", stuck[name])
			}
			found.add(source.up, truth(err == nil && stuck[name] == nil))
			found.send(to)
		})
	}
	all.Wait()
}

// gauges lists the metrics of state.
var gauges []*prometheus.Desc

func gauge(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	gauges = append(gauges, d)
	return d
}

type readings []prometheus.Metric

func (r *readings) add(d *prometheus.Desc, value float64, labels ...string) {
	*r = append(*r, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}

func (r *readings) send(to chan<- prometheus.Metric) {
	for _, one := range *r {
		to <- one
	}
}

// instant returns a time in the form of Prometheus; zero means never.
func instant(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// Metrics of the comparison with the upstream's own count, if this process makes it.
var (
	countUp   = gauge("headroom_upstream_count_up", "Whether the upstream's own count could be read and compared at the last try; missing before the first one.")
	countRead = gauge("headroom_upstream_count_read_timestamp_seconds", "When the upstream's own count was last read and compared; 0 if never.")
)

func (r *readings) counting(s view.CountState) {
	if !s.Read.IsZero() || s.Err != nil {
		r.add(countUp, truth(s.Err == nil))
		r.add(countRead, instant(s.Read))
	}
}

// shared gathers for all who ask within a while at once: to read the ledger and the catalog
// is expensive, and nothing limits how often monitoring asks.
type shared struct {
	prometheus.Gatherer
	share time.Duration

	mu   sync.Mutex
	had  bool
	ends time.Time // when what it had is forgotten
	last []*dto.MetricFamily
	err  error
}

// machine is the clock: Prometheus counts by that of the machine, too.
var machine quota.SystemClock

// Gather implements [prometheus.Gatherer]. Callers must not change the result.
func (s *shared) Gather() ([]*dto.MetricFamily, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had {
		return s.last, s.err
	}
	s.last, s.err = s.Gatherer.Gather()
	if s.share > 0 {
		s.had, s.ends = true, machine.Now().Add(s.share)
		time.AfterFunc(s.share, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.had, s.last, s.err = false, nil, nil
		})
	}
	return s.last, s.err
}

// until returns when what Gather returns next is forgotten, at the earliest.
func (s *shared) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.had {
		return s.ends
	}
	return machine.Now().Add(s.share)
}

// Chosen returns the metrics that a request names, or none if it asks for all.
func Chosen(r *http.Request) []string {
	names := r.URL.Query()["name[]"]
	slices.Sort(names)
	return slices.Compact(names)
}

// text keeps the answers of next, for as long as what it gathers. Requests for all metrics share
// an answer. The handler some answers requests for chosen metrics, so that they take no turn of
// the others.
func (s *shared) text(next, some http.Handler) http.Handler {
	answers := kept.NewStore(kept.Options{Now: machine.Now, Most: 8 << 20, Each: 4 << 20})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := next
		names := Chosen(r)
		if len(names) > 0 {
			next = some
		}
		key := fmt.Sprintf("%s %q", expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...), names)
		a, err := answers.Do(r.Context(), kept.Version{}, key, func(context.Context) (*kept.Answer, error) {
			until := s.until()
			a, err := kept.Capture(next, r)
			if err != nil {
				return nil, err
			}
			a.Until = until
			return a, nil
		})
		if !kept.SendOther(w, err) && err == nil {
			a.Send(w, r)
		}
	})
}
