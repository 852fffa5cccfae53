//go:build linux

package chaos

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// link is a TCP proxy between a daemon and a server, which can be cut.
type link struct {
	addr     string
	to       string
	sql      bool // it leads to PostgreSQL
	listener net.Listener
	// watch is called with each statement before the server gets it: its SQL, or "commit". It
	// is for PostgreSQL only, and may be nil.
	watch atomic.Pointer[func(sql string)]

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool          // new connections are reset
	open  chan struct{} // closed while bytes pass
}

func newLink(to string, sql bool) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{addr: l.Addr().String(), to: to, sql: sql, listener: l, conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(k.open)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.serve(c)
		}
	}()
	return k, nil
}

// cut resets all connections, and new ones, until it is healed.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = true
	k.resetAll()
}

func (k *link) resetAll() {
	for c := range k.conns {
		reset(c)
	}
}

// mute holds all bytes back until it is healed, as a network that loses every packet.
func (k *link) mute() {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.open:
		k.open = make(chan struct{})
	default:
	}
}

func (k *link) heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = false
	select {
	case <-k.open:
	default:
		close(k.open)
	}
}

func (k *link) close() {
	_ = k.listener.Close()
	k.cut()
	k.heal()
}

// pass waits until bytes pass.
func (k *link) pass() {
	k.mu.Lock()
	open := k.open
	k.mu.Unlock()
	<-open
}

func (k *link) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.down {
		k.conns[c] = true
	}
	return !k.down
}

func (k *link) forget(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
	_ = c.Close()
}

func (k *link) serve(client net.Conn) {
	if !k.keep(client) {
		reset(client)
		return
	}
	defer k.forget(client)
	k.pass()
	server, err := net.Dial("tcp", k.to)
	if err != nil {
		reset(client)
		return
	}
	if !k.keep(server) {
		reset(server)
		return
	}
	defer k.forget(server)
	var both sync.WaitGroup
	var sent *statements
	if k.sql {
		sent = new(statements)
	}
	both.Go(func() { k.relay(server, client, sent) })
	both.Go(func() { k.relay(client, server, nil) })
	both.Wait()
}

// relay copies bytes. Statements that a client sends are watched.
func (k *link) relay(to, from net.Conn, sent *statements) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			k.pass()
			chunk := b[:n]
			if watch := k.watch.Load(); sent != nil {
				chunk = sent.add(chunk, func(sql string) {
					if watch != nil {
						(*watch)(sql)
					}
				}, to)
			}
			if _, err := to.Write(chunk); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// statements follow what a client sends to PostgreSQL.
type statements struct {
	begun   bool
	pending []byte
	names   map[string]string // SQL by the name of a prepared statement
}

// add takes bytes, and returns the bytes still to be written. It writes everything before a
// statement before it reports the statement.
func (s *statements) add(b []byte, saw func(sql string), to io.Writer) []byte {
	if s.names == nil {
		s.names = map[string]string{}
	}
	s.pending = append(s.pending, b...)
	var out []byte
	for {
		head := 1
		if !s.begun {
			head = 0 // the first message has no type
		}
		if len(s.pending) < head+4 {
			break
		}
		size := head + int(binary.BigEndian.Uint32(s.pending[head:]))
		if len(s.pending) < size {
			break
		}
		message := s.pending[:size:size]
		s.pending = s.pending[size:]
		if s.begun {
			if sql := s.sql(message); sql != "" {
				if len(out) > 0 {
					_, _ = to.Write(out)
					out = nil
				}
				saw(sql)
			}
		}
		s.begun = true
		out = append(out, message...)
	}
	return out
}

// sql returns the statement that a message executes, or "".
func (s *statements) sql(message []byte) string {
	body := message[5:]
	text := func() string {
		for i, c := range body {
			if c == 0 {
				found := string(body[:i])
				body = body[i+1:]
				return found
			}
		}
		return ""
	}
	switch message[0] {
	case 'Q':
		return text()
	case 'P':
		name := text()
		s.names[name] = text()
	case 'B':
		text() // the portal
		return s.names[text()]
	}
	return ""
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
