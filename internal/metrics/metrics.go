package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Options are what [New] can be told; nil is legal.
type Options struct {
	Log *slog.Logger // nil: slog.Default()

	// Timeout bounds what a ledger and a catalog are given to answer; zero is 5s.
	// What has not answered by then is told of as down, and the rest as it is.
	Timeout time.Duration
}

// Metrics are all that is told, by whichever way. It is the [quota.Observer] of the
// ledger whose decisions are counted. It is safe for concurrent use.
type Metrics struct {
	*decisions
	sources atomic.Pointer[view.Sources]
	state   *prometheus.Registry // what ledger and catalog say
	process *prometheus.Registry // what this process did

	log     *slog.Logger
	timeout time.Duration
}

var _ quota.Observer = (*Metrics)(nil)

// New returns metrics that count decisions at once, and tell of a ledger and a catalog
// when they have been given some: see [Metrics.Tell].
func New(o *Options) *Metrics {
	if o == nil {
		o = &Options{}
	}
	m := &Metrics{
		decisions: newDecisions(), log: o.Log, timeout: o.Timeout,
		state: prometheus.NewRegistry(), process: prometheus.NewRegistry(),
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	if m.timeout == 0 {
		m.timeout = 5 * time.Second
	}
	m.state.MustRegister(state{m})
	m.process.MustRegister(m.all()...)
	m.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Tell makes it tell of other sources from the next time on that somebody asks.
func (m *Metrics) Tell(src view.Sources) { m.sources.Store(&src) }

// atOnce is how many may ask at the same time; others are told to come again.
const atOnce = 4

// Handler answers Prometheus with all that there is.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.state, m.process}, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: atOnce,
	})
}

// WriteFile replaces a file for node_exporter's textfile collector: whoever reads it
// sees the old or the new one. It has what ledger and catalog say; counters of a
// process that leaves would tell nothing.
func (m *Metrics) WriteFile(path string) error {
	if err := prometheus.WriteToTextfile(path, m.state); err != nil {
		return fmt.Errorf("write the metrics: %w", err)
	}
	return nil
}

// state collects what ledger and catalog say when somebody asks.
type state struct{ *Metrics }

// Describe implements [prometheus.Collector].
func (s state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range gauges {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. What cannot be read is left out as a
// whole, and told of as down.
func (s state) Collect(to chan<- prometheus.Metric) {
	src := s.sources.Load()
	if src == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	var both sync.WaitGroup
	for what, from := range map[string]struct {
		up   *prometheus.Desc
		read func(context.Context, *view.Sources) (readings, error)
	}{
		"ledger":  {ledgerUp, readLedger},
		"catalog": {catalogUp, readCatalog},
	} {
		both.Go(func() {
			found, err := from.read(ctx, src)
			up := 1.0
			if err != nil {
				s.log.Warn("metrics: the "+what+" cannot be read", "error", err)
				found, up = nil, 0
			}
			found.add(from.up, up)
			for _, one := range found {
				to <- one
			}
		})
	}
	both.Wait()
}

// gauges is every metric of state.
var gauges []*prometheus.Desc

// gauge is a new one of them.
func gauge(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	gauges = append(gauges, d)
	return d
}

// readings are values that were read.
type readings []prometheus.Metric

func (r *readings) add(d *prometheus.Desc, value float64, labels ...string) {
	*r = append(*r, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}

// instant is a time as Prometheus has it; zero is never.
func instant(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
