package web

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/internal/metrics"
)

// DefaultConnections is the default of [Options.Connections].
const DefaultConnections = 1000

// crowd bounds the open connections, of all clients and of each, and the requests that a
// client has under way, so that a client that opens many cannot use up the memory and the
// files of the process, nor keep others out. A connection too many replaces the one that
// has waited longest for its client: for a request, for the rest of one, or for an answer
// to be read. Of all clients, the one with the most connections gives way. Only if the
// server is at work on all of them, the new one is closed.
//
// A client is an address, or a network /64 of IPv6. Behind a trusted proxy it is the
// address that the proxy names.
type crowd struct {
	all, each int
	trusts    func(netip.Addr) bool
	closed    func(reason string, client netip.Prefix)

	mu       sync.Mutex
	turn     uint64 // of the last that began to wait
	open     map[net.Conn]*visitor
	of       map[netip.Prefix]int // open connections
	requests map[netip.Prefix]int // under way
}

// visitor is an open connection.
type visitor struct {
	client  netip.Prefix
	proxied bool
	working int    // requests that the server is at work on
	since   uint64 // the turn in which it began to wait
}

func newCrowd(all, each int, trusts func(netip.Addr) bool, closed func(string, netip.Prefix)) *crowd {
	return &crowd{
		all: all, each: each, trusts: trusts, closed: closed,
		open: map[net.Conn]*visitor{}, of: map[netip.Prefix]int{}, requests: map[netip.Prefix]int{},
	}
}

// track is the [http.Server.ConnState] of a server.
func (c *crowd) track(conn net.Conn, to http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch to {
	case http.StateNew:
		c.enter(conn)
	case http.StateIdle:
		if v := c.open[conn]; v != nil {
			c.waits(v)
		}
	case http.StateClosed, http.StateHijacked:
		c.leave(conn)
	case http.StateActive: // it may have sent one byte only
	}
}

// enter counts a connection, and closes one if there are too many.
func (c *crowd) enter(conn net.Conn) {
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	v := &visitor{client: clientOf(from.Addr().Unmap()), proxied: c.trusts(from.Addr().Unmap())}
	c.waits(v)
	c.open[conn] = v
	c.of[v.client]++
	switch {
	case !v.proxied && c.of[v.client] > c.each:
		c.makeRoom(conn, metrics.OfClient, func(old *visitor) bool { return old.client == v.client })
	case len(c.open) > c.all:
		c.makeRoom(conn, metrics.OfAll, func(*visitor) bool { return true })
	}
}

// leave forgets a connection.
func (c *crowd) leave(conn net.Conn) {
	if v := c.open[conn]; v != nil {
		delete(c.open, conn)
		less(c.of, v.client)
	}
}

// waits has a connection wait for its client from now on.
func (c *crowd) waits(v *visitor) {
	c.turn++
	v.since = c.turn
}

// makeRoom closes one of these connections, or else the new one.
func (c *crowd) makeRoom(latest net.Conn, reason string, among func(*visitor) bool) {
	var out net.Conn
	var gives *visitor
	for conn, v := range c.open {
		if conn == latest || v.working > 0 || !among(v) {
			continue
		}
		if gives == nil || c.of[v.client] > c.of[gives.client] || c.of[v.client] == c.of[gives.client] && v.since < gives.since {
			out, gives = conn, v
		}
	}
	if out == nil {
		out, gives = latest, c.open[latest]
	}
	c.leave(out)
	c.closed(reason, gives.client)
	if secure, is := out.(*tls.Conn); is {
		out = secure.NetConn() // TLS would send an alert first, which may block
	}
	_ = out.Close() // the client may have hung up already
}

// begin counts a request of a client, unless it has too many under way.
func (c *crowd) begin(conn net.Conn, client netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests[client] >= c.each {
		return false
	}
	c.requests[client]++
	if v := c.open[conn]; v != nil && v.proxied {
		less(c.of, v.client)
		v.client = client
		c.of[client]++
	}
	return true
}

// end ends a request.
func (c *crowd) end(client netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	less(c.requests, client)
}

// works says that the server is at work for a connection, or that it waits for it again.
func (c *crowd) works(conn net.Conn, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.open[conn]
	switch {
	case v == nil:
	case is:
		v.working++
	default:
		v.working--
		c.waits(v)
	}
}

func less(counts map[netip.Prefix]int, client netip.Prefix) {
	if counts[client]--; counts[client] <= 0 {
		delete(counts, client)
	}
}

// clientOf returns the network that counts as one client.
func clientOf(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr.WithZone(""), bits).Masked()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// crowded refuses requests of a client that has too many under way, and tells the crowd
// when the server is at work for a connection.
func (s *Server) crowded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		client := clientOf(s.limits.Load().routes.Client(r))
		if !s.crowd.begin(conn, client) {
			s.metrics.RequestRefused(metrics.OfClient)
			s.fail(w, r, &Problem{Status: http.StatusTooManyRequests, Code: "too_many_at_once", Detail: "too many requests of this address are under way", RetryAfter: time.Second})
			return
		}
		defer s.crowd.end(client)
		s.crowd.works(conn, true)
		defer s.crowd.works(conn, false)
		at := waits{s.crowd, conn}
		r.Body = waitedBody{r.Body, at}
		next.ServeHTTP(waitedAnswer{w, at}, r.WithContext(context.WithValue(r.Context(), clientKey{}, client)))
	})
}

// waits tells a crowd that a request waits for its client meanwhile.
type waits struct {
	crowd *crowd
	conn  net.Conn
}

func (w waits) during(do func() (int, error)) (int, error) {
	w.crowd.works(w.conn, false)
	defer w.crowd.works(w.conn, true)
	return do()
}

// waitedBody is the body of a request, which may be slow to come.
type waitedBody struct {
	io.ReadCloser
	waits
}

// Read implements [io.Reader].
func (b waitedBody) Read(p []byte) (int, error) {
	return b.during(func() (int, error) { return b.ReadCloser.Read(p) })
}

// waitedAnswer is an answer, which may be slow to be read.
type waitedAnswer struct {
	http.ResponseWriter
	waits
}

// Write implements [io.Writer].
func (a waitedAnswer) Write(p []byte) (int, error) {
	return a.during(func() (int, error) { return a.ResponseWriter.Write(p) })
}

// Unwrap is for [http.ResponseController].
func (a waitedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// connectionClosed logs that a connection was closed to make room, once a minute.
func (s *Server) connectionClosed(reason string, client netip.Prefix) {
	s.metrics.ConnectionClosed(reason)
	if due, skipped := s.complaints.due("connections of " + reason); due {
		s.log.Warn("closed a connection to make room", "client", client.Addr(), "too_many_of", reason, "skipped", skipped)
	}
}
