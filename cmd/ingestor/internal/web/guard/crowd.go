// Package guard keeps the clients of a server from keeping each other out: by connections,
// by requests under way, by guesses of a token, and by lines of the log.
package guard

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
)

// Crowd bounds the open connections, of all clients and of each, and the requests that a
// client has under way, so that a client that opens many cannot use up the memory and the
// files of the process, nor keep others out. A connection too many replaces the one that
// has waited longest for its client: for a request, for the rest of one, or for an answer
// to be read. Of all clients, the one with the most connections gives way. Only if the
// server is at work on all of them, the new one is closed.
//
// A client is an address, or a network /64 of IPv6. Behind a trusted proxy it is the
// address that the proxy names. All clients there share the connections of the proxy.
type Crowd struct {
	all, each int
	trusts    func(netip.Addr) bool
	closed    func(reason string, client netip.Prefix)

	requests *Counts[netip.Prefix] // under way

	mu   sync.Mutex
	turn uint64 // of the last that began to wait
	open map[net.Conn]*visitor
	of   map[netip.Prefix]int // open connections
}

type visitor struct {
	client  netip.Prefix
	proxied bool
	working int    // requests that the server is at work on
	since   uint64 // the turn in which it began to wait
}

// NewCrowd returns a crowd with at most so many connections, and so many of each client. It
// trusts proxies, and calls closed for each connection that it closes.
func NewCrowd(all, each int, trusts func(netip.Addr) bool, closed func(reason string, client netip.Prefix)) *Crowd {
	return &Crowd{
		all: all, each: each, trusts: trusts, closed: closed,
		open: map[net.Conn]*visitor{}, of: map[netip.Prefix]int{}, requests: NewCounts[netip.Prefix](each),
	}
}

// Another returns an empty crowd with the same bounds.
func (c *Crowd) Another() *Crowd { return NewCrowd(c.all, c.each, c.trusts, c.closed) }

// Track is the [http.Server.ConnState] of a server.
func (c *Crowd) Track(conn net.Conn, to http.ConnState) {
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
func (c *Crowd) enter(conn net.Conn) {
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	v := &visitor{client: ClientOf(from.Addr().Unmap()), proxied: c.trusts(from.Addr().Unmap())}
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

func (c *Crowd) leave(conn net.Conn) {
	if v := c.open[conn]; v != nil {
		delete(c.open, conn)
		less(c.of, v.client)
	}
}

// waits has a connection wait for its client from now on.
func (c *Crowd) waits(v *visitor) {
	c.turn++
	v.since = c.turn
}

// makeRoom closes one of these connections, or else the new one.
func (c *Crowd) makeRoom(latest net.Conn, reason string, among func(*visitor) bool) {
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

// Begin counts a request of a client, unless it has too many under way.
func (c *Crowd) Begin(r *http.Request, client netip.Prefix) bool {
	if !c.requests.Begin(client) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.open[connOf(r)]; v != nil && v.proxied {
		less(c.of, v.client)
		v.client = client
		c.of[client]++
	}
	return true
}

// End ends a request that was begun.
func (c *Crowd) End(client netip.Prefix) { c.requests.End(client) }

// Works says that the server is at work for a connection, or that it waits for it again.
func (c *Crowd) Works(conn net.Conn, is bool) {
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

// ClientOf returns the network that counts as one client.
func ClientOf(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr.WithZone(""), bits).Masked()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func connOf(r *http.Request) net.Conn {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// Working tells the crowd when the server is at work for a request: not while it reads from
// the client or writes to it. It changes the body of the request. The handler calls done at
// the end.
func (c *Crowd) Working(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, done func()) {
	at := waits{c, connOf(r)}
	c.Works(at.conn, true)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = waitedBody{r.Body, at}
	}
	return waitedAnswer{w, at}, func() { c.Works(at.conn, false) }
}

// waits tells a crowd that a request waits for its client meanwhile.
type waits struct {
	crowd *Crowd
	conn  net.Conn
}

func (w waits) during(do func() (int, error)) (int, error) {
	w.crowd.Works(w.conn, false)
	defer w.crowd.Works(w.conn, true)
	return do()
}

// waitedBody is the body of a request, which may be slow to come.
type waitedBody struct {
	io.ReadCloser
	waits
}

func (b waitedBody) Read(p []byte) (int, error) {
	return b.during(func() (int, error) { return b.ReadCloser.Read(p) })
}

// waitedAnswer is an answer, which may be slow to be read.
type waitedAnswer struct {
	http.ResponseWriter
	waits
}

func (a waitedAnswer) Write(p []byte) (int, error) {
	return a.during(func() (int, error) { return a.ResponseWriter.Write(p) })
}

// Unwrap is for [http.ResponseController].
func (a waitedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
