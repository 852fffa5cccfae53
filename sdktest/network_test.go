package sdktest

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
)

// network connects clients and servers within a bubble of testing/synctest, where
// sockets would stop the time. Addresses look like loopback ones.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

func newNetwork() *network { return &network{listeners: map[string]*listener{}} }

// serve starts a server and returns its address.
func (n *network) serve(t *testing.T, h http.Handler) string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{addr: "127.0.0.1:" + strconv.Itoa(1+len(n.listeners)), conns: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[l.addr] = l
	server := &http.Server{Handler: h, ErrorLog: log.New(discard{}, "", 0)}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.addr
}

// transport returns a transport of one process.
func (n *network) transport(t *testing.T) *http.Transport {
	tr := &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: 1000, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused: " + addr)
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	addr  string
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.addr) }

type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
