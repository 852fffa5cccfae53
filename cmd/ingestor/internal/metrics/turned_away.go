package metrics

import "github.com/prometheus/client_golang/prometheus"

// turnedAway counts what the server turned away, in this process. Each reason is there from
// the start, so that an alert sees the first one.
type turnedAway struct {
	connections, requests *prometheus.CounterVec
	accepts               prometheus.Counter
}

// The reasons of [Metrics.ConnectionClosed] and [Metrics.RequestRefused].
const (
	OfClient   = "client"      // the client has too many at once
	OfAll      = "all"         // there are too many of all clients
	Searches   = "searches"    // too many searches wait
	Histories  = "histories"   // too many requests for the history wait
	CrossSite  = "cross_site"  // a page of another site sent it
	WrongToken = "wrong_token" // the address sent too many wrong tokens
	OfToken    = "token"       // the token has too many calls through the proxy at once
	Waiting    = "waiting"     // too many calls through the proxy wait for units
	Bodies     = "bodies"      // bodies of calls through the proxy take too much memory
)

func newTurnedAway() turnedAway {
	counter := func(name, help string, reasons ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"reason"})
		for _, reason := range reasons {
			c.WithLabelValues(reason)
		}
		return c
	}
	return turnedAway{
		accepts:     prometheus.NewCounter(prometheus.CounterOpts{Name: "ingestor_accept_errors_total", Help: "How often this server could not accept connections, as when it may open no more files."}),
		connections: counter("ingestor_connections_closed_total", "Connections that this server closed to make room for others: of a client that has too many (client), or of the one that has the most (all).", OfClient, OfAll),
		requests:    counter("ingestor_requests_turned_away_total", "Requests that this server did not begin to answer, by the reason.", OfClient, Searches, Histories, CrossSite, WrongToken, OfToken, Waiting, Bodies),
	}
}

// ConnectionClosed counts a connection that was closed to make room.
func (m *Metrics) ConnectionClosed(reason string) {
	m.away.connections.WithLabelValues(reason).Inc()
}

// AcceptFailed counts an error of a listener.
func (m *Metrics) AcceptFailed() { m.away.accepts.Inc() }

// RequestRefused counts a request that was turned away.
func (m *Metrics) RequestRefused(reason string) { m.away.requests.WithLabelValues(reason).Inc() }
