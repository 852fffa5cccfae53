package redistest

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is a fault that a [Proxy] injects into a reply or a request.
type Fault string

// The faults. With the last two, the server never receives a whole request. With the others
// it has executed the request.
const (
	Drop      Fault = "drop"       // the reply is dropped, the connection stays open
	Stall     Fault = "stall"      // the reply comes late, or too late
	HalfClose Fault = "half-close" // half of the reply, then no more; requests still pass
	Reset     Fault = "reset"      // the connection is reset instead of the reply
	Lose      Fault = "lose"       // it is reset before the request
	Cut       Fault = "cut"        // it is reset in the middle of the request
)

// Faults lists all faults.
var Faults = []Fault{Drop, Stall, HalfClose, Reset, Lose, Cut}

// early reports whether the fault affects the request.
func (f Fault) early() bool { return f == Lose || f == Cut }

// Proxy is a proxy between clients and a server that injects faults.
type Proxy struct {
	Addr string

	to       string
	delay    time.Duration
	listener net.Listener
	often    atomic.Int64
	once     atomic.Pointer[Fault]
	mu       sync.Mutex
	rand     *rand.Rand
	conns    map[net.Conn]bool // nil once it is closed
	did      map[Fault]int
	wg       sync.WaitGroup
}

// StartProxy starts a proxy, which passes everything on until [Proxy.Misbehave] or
// [Proxy.Once]. A stall takes at most the delay.
func StartProxy(to string, seed uint64, delay time.Duration) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: l.Addr().String(), to: to, delay: delay, listener: l, rand: rand.New(rand.NewPCG(seed, 0)),
		conns: make(map[net.Conn]bool), did: make(map[Fault]int),
	}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p, nil
}

// Misbehave injects random faults into this many of a thousand chunks.
func (p *Proxy) Misbehave(perThousand int64) { p.often.Store(perThousand) }

// Once injects a fault into the next reply or request.
func (p *Proxy) Once(f Fault) { p.once.Store(&f) }

// Did returns how often each fault was injected.
func (p *Proxy) Did() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	did := make(map[Fault]int)
	for f, n := range p.did {
		did[f] = n
	}
	return did
}

// Close ends all connections.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wg.Wait()
}

// next returns the fault for a reply or a request, or "".
func (p *Proxy) next(request bool) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var f Fault
	if once := p.once.Load(); once != nil {
		f = *once
	} else if p.rand.Int64N(1000) < p.often.Load() {
		f = Faults[p.rand.IntN(len(Faults))]
	}
	if f == "" || f.early() != request {
		return ""
	}
	p.once.Store(nil)
	p.did[f]++
	return f
}

// late returns the duration of a stall.
func (p *Proxy) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.rand.Int64N(int64(p.delay) + 1))
}

// keep remembers a connection, so that Close can close it.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		reset(client)
		return
	}
	if !p.keep(client) || !p.keep(server) {
		client.Close()
		server.Close()
		return
	}
	both := func(end func(net.Conn)) { end(client); end(server) }
	p.wg.Go(func() {
		defer both(func(c net.Conn) { c.Close() })
		relay(server, client, func(request []byte) bool {
			switch p.next(true) {
			case Cut:
				server.Write(request[:len(request)/2])
				fallthrough
			case Lose:
				both(reset)
				return false
			}
			return true
		})
	})
	mute := false
	relay(client, server, func(reply []byte) bool {
		if mute {
			return false
		}
		switch p.next(false) {
		case Drop:
			return false
		case Stall:
			time.Sleep(p.late())
		case HalfClose:
			client.Write(reply[:len(reply)/2])
			client.(*net.TCPConn).CloseWrite()
			mute = true
			return false
		case Reset:
			both(reset)
			return false
		}
		return true
	})
	client.Close()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// relay copies chunks that pass.
func relay(to io.Writer, from io.Reader, pass func([]byte) bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if !pass(b[:n]) {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
