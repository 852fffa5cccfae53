package web

import (
	"net"
	"net/http"
	"sync"
)

// DefaultConnections is the default of [Options.Connections].
const DefaultConnections = 1000

// connections bounds the open connections, so that a client that opens many cannot use up
// the memory or the files of the process. Above the bound, a new connection replaces an
// idle one. If none is idle, the new one is closed.
type connections struct {
	limit int
	mu    sync.Mutex
	open  int
	idle  map[net.Conn]struct{}
}

// track is the [http.Server.ConnState] of a server.
func (c *connections) track(conn net.Conn, to http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.idle, conn)
	switch to {
	case http.StateNew:
		c.open++
		if c.open > c.limit {
			c.makeRoom(conn)
		}
	case http.StateIdle:
		c.idle[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		c.open--
	case http.StateActive:
	}
}

// makeRoom closes an idle connection, or else the new one. The client may have hung up
// already.
func (c *connections) makeRoom(conn net.Conn) {
	for old := range c.idle {
		delete(c.idle, old)
		go old.Close() //nolint:errcheck // see above; TLS sends an alert first, which may block
		return
	}
	_ = conn.Close()
}
