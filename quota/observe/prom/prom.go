// Package prom counts the decisions of a ledger for Prometheus.
//
//	decisions := prom.New()
//	prometheus.MustRegister(decisions)
//	ledger, err := quota.New(book, store, &quota.Options{Observer: decisions})
//
// No label holds text from outside, such as a client's address. The number of values that
// callers choose is bounded: of the hosts that are not metered, the first 20 have labels of
// their own.
package prom

import (
	"context"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headroom-quota/headroom/quota"
)

// Decisions counts the decisions of a ledger in this process. It is both a [quota.Observer]
// and a [prometheus.Collector]. New makes it.
type Decisions struct {
	collector
	outcomes *prometheus.CounterVec
	refusals *prometheus.CounterVec
	blocks   *prometheus.CounterVec
	replayed *prometheus.CounterVec
	others   *prometheus.CounterVec
	spilled  *prometheus.CounterVec
	took     prometheus.Histogram

	unmetered *prometheus.CounterVec
	mu        sync.Mutex
	hosts     map[string]bool // that have a label
}

// collector collects all of them.
type collector = prometheus.Collector

// mostHosts is how many hosts that are not metered have a label.
const mostHosts = 20

// label returns the label of a host that is not metered.
func (d *Decisions) label(host string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hosts[host] {
		return host
	}
	if len(d.hosts) == mostHosts || len(host) > 253 || !utf8.ValidString(host) {
		return "other"
	}
	d.hosts[host] = true
	return host
}

// New returns counters that stand at zero.
func New() *Decisions {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	d := &Decisions{
		outcomes:  counter("headroom_decisions_total", "Answers of this process's ledger to callers who asked for units, by outcome; in an outage that is admitted or outage.", "upstream", "account", "outcome"),
		refusals:  counter("headroom_refusals_total", "Refusals of this process's ledger, by the pool and the window that decided.", "upstream", "account", "pool", "window"),
		blocks:    counter("headroom_blocks_total", "How often this process shut a pool, mostly because the upstream refused a call.", "upstream", "account", "pool"),
		replayed:  counter("headroom_replayed_units_total", "Units admitted in an outage that this process has since written to the ledger.", "upstream", "account", "pool"),
		others:    counter("headroom_others_units_total", "Units that an upstream has counted but that were not reserved in the ledger, as this process wrote them to it.", "upstream", "account", "pool"),
		spilled:   counter("headroom_spilled_calls_total", "Calls of this process that went to another upstream, because their own had no units.", "upstream", "to"),
		hosts:     map[string]bool{},
		unmetered: counter("headroom_unmetered_requests_total", "Requests of this process to hosts that no upstream of the price book lists: refused if the transport is strict, and sent without a charge otherwise.", "host", "outcome"),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "headroom_reserve_duration_seconds",
			Help:    "How long the store took to decide.",
			Buckets: []float64{.000001, .00001, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	all := prometheus.NewRegistry()
	all.MustRegister(d.outcomes, d.refusals, d.blocks, d.replayed, d.others, d.spilled, d.unmetered, d.took)
	d.collector = all
	return d
}

// Expect makes the outcomes and the blocks of all that a price book names stand at zero. An
// alert on their increase sees the first one only if they were there before it.
func (d *Decisions) Expect(costs *quota.Book) {
	expect := func(upstream, account string) {
		for _, kind := range answers {
			d.outcomes.WithLabelValues(upstream, account, string(kind))
		}
	}
	for name, u := range costs.Upstreams {
		for _, account := range u.Accounts {
			expect(name, account)
			for pool := range u.Pools {
				d.blocks.WithLabelValues(name, account, pool)
			}
		}
	}
	for name := range costs.Families {
		expect(name, quota.DefaultAccount)
	}
}

var (
	_ quota.Observer       = (*Decisions)(nil)
	_ prometheus.Collector = (*Decisions)(nil)
)

// answers are the events that answer a caller.
var answers = []quota.EventKind{
	quota.EventGranted, quota.EventDrawn, quota.EventRefused, quota.EventBlocked, quota.EventImpossible,
	quota.EventUnpriced, quota.EventObserved, quota.EventAdmitted, quota.EventOutage, quota.EventFailed,
}

// Observe implements [quota.Observer].
func (d *Decisions) Observe(_ context.Context, e quota.Event) {
	up, account := owner(&e)
	if slices.Contains(answers, e.Kind) {
		d.outcomes.WithLabelValues(up, account, string(e.Kind)).Inc()
	}
	switch e.Kind {
	case quota.EventRefused:
		d.refusals.WithLabelValues(up, account, e.Pool.Name, e.Verdict.Window).Inc()
	case quota.EventShut:
		d.blocks.WithLabelValues(up, account, e.Pool.Name).Inc()
	case quota.EventReplayed:
		d.replayed.WithLabelValues(up, account, e.Pool.Name).Add(float64(e.Units))
	case quota.EventUnmetered:
		outcome := "sent"
		if e.Err != nil {
			outcome = "refused"
		}
		d.unmetered.WithLabelValues(d.label(e.Host), outcome).Inc()
	case quota.EventSpilled:
		d.spilled.WithLabelValues(up, e.Reason).Inc()
	case quota.EventOthers:
		d.others.WithLabelValues(up, account, e.Pool.Name).Add(float64(e.Units))
	}
	if e.Took > 0 {
		d.took.Observe(e.Took.Seconds())
	}
}

// owner returns the upstream and the account of an event. It never returns the key of a
// family, which may be an address, or a name that is not in the price book.
func owner(e *quota.Event) (upstream, account string) {
	switch {
	case e.Pool != quota.Pool{}:
		return e.Pool.Upstream, e.Pool.Account
	case e.Kind == quota.EventFailed:
		return "", "" // the names themselves may be the fault
	case e.Call.Family != "":
		return e.Call.Family, quota.DefaultAccount
	}
	return e.Call.Upstream, e.Call.Account
}
