package web

import (
	"net"
	"net/http"
	"sync"
)

// DefaultConnections is how many clients may be connected at once.
const DefaultConnections = 1000

// connections bounds them, so that whoever opens many takes neither the memory nor the
// files of the process. One too many takes the place of one that is idle; where none is,
// it is closed.
type connections struct {
	most int
	mu   sync.Mutex
	open int
	idle map[net.Conn]struct{}
}

// changed is for [http.Server.ConnState].
func (c *connections) changed(conn net.Conn, to http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.idle, conn)
	switch to {
	case http.StateNew:
		c.open++
		if c.open > c.most {
			c.makeRoom(conn)
		}
	case http.StateIdle:
		c.idle[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		c.open--
	case http.StateActive:
	}
}

// makeRoom closes an idle connection for a new one, or else the new one. Whoever it is
// may have gone already.
func (c *connections) makeRoom(conn net.Conn) {
	for old := range c.idle {
		delete(c.idle, old)
		go old.Close() //nolint:errcheck // see above; TLS says goodbye first, and may have to wait
		return
	}
	_ = conn.Close()
}
