package serve

import (
	"errors"
	"fmt"
	"net"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

const (
	// ownFiles is how many files a server has open beside its connections: those of the
	// ledger, the catalog and the journal, connections to databases, listeners and probes.
	ownFiles = 160
	// fewest is how many connections a listener always has.
	fewest = 8
)

// bounds are how many connections the listeners of a process may have.
type bounds struct {
	web, proxy int // of each listener
}

// fit lowers the bounds until their files fit into the number that the process may open; 0 is
// no bound. Without a file left, no listener could accept anybody, and nothing could close a
// connection to make room. It also returns how many files they would need.
func (b bounds) fit(open uint64, serving, proxying int) (fitting bounds, need int) {
	// The proxy has a connection to an upstream for each of a program.
	need = ownFiles + serving*b.web + 2*proxying*b.proxy
	if open == 0 || open >= uint64(need) {
		return b, need
	}
	free := max(int(open)-ownFiles, 0)
	part := func(n int) int { return max(n*free/(need-ownFiles), fewest) }
	return bounds{part(b.web), part(b.proxy)}, need
}

// boundsOf returns the bounds of the listeners of these settings: of the server, if there is
// one, and of the proxy. It warns if they are lower than usual.
func boundsOf(a *session.Session, s *settings.Settings, serves bool) bounds {
	serving, proxying := 0, 0
	if serves {
		if serving = 1; s.EnvoyListen != "" {
			serving++
		}
	}
	if !serves || s.ProxyListen != "" {
		proxying = 1
	}
	usual := bounds{web.DefaultConnections, proxy.DefaultConnections}
	open := openFiles()
	b, need := usual.fit(open, serving, proxying)
	if b != usual {
		a.Log.Warn("this process may open few files, so it accepts fewer connections; raise the limit, with LimitNOFILE in the unit or ulimit -n",
			"files", open, "enough", need, "connections", serving*b.web+proxying*b.proxy, "usual", serving*usual.web+proxying*usual.proxy)
	}
	return b
}

// accepting is a listener whose errors are logged, once a minute, and counted. The servers try
// again by themselves.
type accepting struct {
	net.Listener
	failed func(error)
}

// Accept implements [net.Listener].
func (w accepting) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		w.failed(err)
	}
	return c, err
}

// telling returns the listener with its errors logged.
func telling(a *session.Session, l net.Listener, measured *metrics.Metrics, complaints *guard.Complaints) net.Listener {
	return accepting{l, func(err error) {
		measured.AcceptFailed()
		if due, skipped := complaints.Due(fmt.Sprint("accepting at ", l.Addr())); due {
			a.Log.Warn("no connection can be accepted", "at", l.Addr().String(), "error", err, "skipped", skipped)
		}
	}}
}
