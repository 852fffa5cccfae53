// Package serve has the commands that serve and meter the calls of other programs.
package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/counting"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/notify"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/session"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
	"github.com/headroom-quota/headroom/quota"
)

func Command(a *session.Session) *cobra.Command {
	cmd := console.Command("serve", console.NoArgs, func(cmd *cobra.Command, _ []string) (err error) {
		ctx := cmd.Context()
		s, err := a.Settings(cmd.Flags())
		if err != nil {
			return err
		}
		hangups := session.ListenForHangups()
		defer hangups.Stop()
		measured := metrics.New(&metrics.Options{Log: a.Log})
		a.Observer = measured
		var done console.Closers
		defer func() { err = console.OrStopped(ctx, console.ExitDone, errors.Join(err, done.Close())) }()
		a.Trace(ctx, &done)
		sources, err := openSources(ctx, a, s, &done)
		if err != nil {
			return err
		}
		src, err := sources(s)
		if err != nil {
			return err
		}
		refused := keepRefusals(ctx, a, src.Catalog.AddRefusals, &done)
		bounds := boundsOf(a, s, true)
		budgets := proxy.NewBudgets(src.Ledger, a.Clock, a.Log)
		budgets.Update(s.Grants())
		done.Add(func() error { _ = budgets.Flush(context.WithoutCancel(ctx)); return nil }) // the ledger is closed after it
		server, err := newServer(a, s, src, measured, refused, budgets, bounds)
		if err != nil {
			return err
		}
		if public, _ := web.Public(s.Listen); public && s.Insecure && s.TLSCert == "" {
			a.Log.Warn("insecure: others on the network can read along, and a page of any site can have its readers' browsers ask this server; set tls_cert and tls_key", "listen", s.Listen)
		}
		if err := counting.WatchCounts(ctx, a, s, src.Ledger, &done); err != nil {
			return err
		}
		l, err := listen(ctx, s, s.Listen, "ingestor serve --listen 127.0.0.1:0")
		if err != nil {
			return err
		}
		opened := listeners{{l, server.Serve}}
		defer func() { err = errors.Join(err, opened.close()) }()
		if err := opened.besides(ctx, a, s, server); err != nil {
			return err
		}
		proxied := func(*settings.Settings) (func(), error) { return func() {}, nil }
		if s.ProxyListen != "" {
			h, err := newProxy(a, s, src.Ledger, measured, refused, budgets, bounds, nil)
			if err == nil {
				err = opened.proxy(ctx, a, s, h)
			}
			if err != nil {
				return err
			}
			proxied = func(next *settings.Settings) (func(), error) { return reloadedProxy(a, h, s, next) }
		}
		var inForce atomic.Pointer[notify.Inputs]
		clock := a.Clock
		if shared, is := src.Catalog.(*pgcatalog.Catalog); is { // the clock of those who tell, too
			if clock, err = fleet.NewClock(ctx, shared); err != nil {
				return session.UnopenedDatabase(err)
			}
		}
		facts := s.Facts(clock)
		noting := func(s *settings.Settings, src *web.Sources) {
			inForce.Store(&notify.Inputs{Targets: s.Notify, Sources: &src.Sources, Facts: facts})
		}
		noting(s, &src)
		done.Go(ctx, notify.New(src.Catalog, func() notify.Inputs { return *inForce.Load() }, &notify.Options{Clock: clock, Log: a.Log}).Run)
		fmt.Fprintf(a.Stdout, "serving on %s://%s\n", s.Scheme(), l.Addr())
		hangups.Reload(ctx, a, s, true, &done, func(_ context.Context, next *settings.Settings) error {
			src, err := sources(next)
			if err != nil {
				return err
			}
			update, err := proxied(next)
			if err == nil {
				err = server.Update(src, next.Book)
			}
			if err == nil {
				budgets.Update(next.Grants())
				noting(next, &src)
				update()
			}
			return err
		})
		return opened.serve(ctx, a, measured)
	})
	settings.AddFlags(cmd, cmd.Flags(), settings.ForServers)
	settings.AddFlags(cmd, cmd.Flags(), settings.ForCounts)
	return cmd
}

// beside is a listener beside that of the server: for probes, or for Envoy.
type beside struct {
	net.Listener
	serve func(ctx, abort context.Context, l net.Listener) error
}

// listeners are the open listeners of a process. If nothing serves them, close closes them.
type listeners []beside

// add adds a listener, unless it could not be opened, and tells where it is. Tell has a verb for that.
func (ls *listeners) add(a *session.Session, l net.Listener, err error, serve func(ctx, abort context.Context, l net.Listener) error, tell string) error {
	if err == nil {
		*ls = append(*ls, beside{l, serve})
		fmt.Fprintf(a.Stdout, tell+"\n", l.Addr())
	}
	return err
}

func (ls *listeners) close() (err error) {
	for _, one := range *ls {
		err = errors.Join(err, one.Close())
	}
	return err
}

// besides opens the other listeners that the settings name.
func (ls *listeners) besides(ctx context.Context, a *session.Session, s *settings.Settings, server *web.Server) error {
	if err := ls.probes(ctx, a, s, server, "ingestor serve"); err != nil {
		return err
	}
	if s.Socket != "" {
		l, err := listenSocket(ctx, s.Socket)
		if err := ls.add(a, l, err, server.ServeSocket, "ingestor quota on %s"); err != nil {
			return err
		}
	}
	if s.EnvoyListen != "" {
		l, err := listen(ctx, s, s.EnvoyListen, "ingestor serve --envoy-listen 127.0.0.1:0")
		if err := ls.add(a, l, err, server.ServeEnvoy, "Envoy's rate limit service on %s"); err != nil {
			return err
		}
	}
	if s.RiverListen == "" {
		return nil
	}
	ui, err := url.Parse(s.RiverUI)
	if err != nil {
		return console.Config(err)
	}
	l, err := listen(ctx, s, s.RiverListen, "ingestor serve --river-listen 127.0.0.1:0")
	return ls.add(a, l, err, server.ServeRiver(ui), "River's pages on "+s.Scheme()+"://%s")
}

// probes opens the listener of probes, if the settings name one.
func (ls *listeners) probes(ctx context.Context, a *session.Session, s *settings.Settings, server *web.Server, command string) error {
	if s.ProbeListen == "" {
		return nil
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "tcp", s.ProbeListen)
	if err != nil {
		return console.CannotListen(err, command+" --probe-listen 127.0.0.1:0")
	}
	return ls.add(a, l, nil, server.ServeProbes, "probes on http://%s")
}

// listenSocket listens on a Unix socket that the group of this process may use. It takes the place of
// one that a killed server has left.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return nil, errors.Join(fmt.Errorf("socket: another server answers at %s\nStop it, or name another socket", path), c.Close())
		case errors.Is(err, syscall.ECONNREFUSED):
			err = os.Remove(path)
		}
		if err != nil {
			return nil, console.Config(fmt.Errorf("socket: %w", err))
		}
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o660); err != nil { //nolint:gosec // for the group
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, console.Config(fmt.Errorf("socket: %w\nIts folder must exist, and this user must be able to write to it", err))
	}
	return l, nil
}

// serve serves from all listeners. If one ends, so do the others.
func (ls *listeners) serve(ctx context.Context, a *session.Session, measured *metrics.Metrics) error {
	all := *ls
	*ls = nil
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	complaints := guard.NewComplaints(cmp.Or[quota.Clock](a.Clock, quota.SystemClock{}))
	ended := make(chan error, len(all))
	for _, one := range all {
		go func() {
			ended <- one.serve(ctx, a.Abort, telling(a, one.Listener, measured, complaints))
			stop()
		}()
	}
	var failed error
	for range all {
		failed = errors.Join(failed, <-ended)
	}
	return failed
}

func newServer(a *session.Session, s *settings.Settings, src web.Sources, measured *metrics.Metrics, refused *refusals.Tally, budgets *proxy.Budgets, b bounds) (*web.Server, error) {
	proxies, err := s.Proxies()
	if err != nil {
		return nil, console.Config(err)
	}
	public, err := web.Public(s.Listen)
	if err != nil {
		return nil, console.Config(err)
	}
	typed := s.Typed()
	if public { // a page that strangers read names no path of this machine
		typed = ""
	}
	server, err := web.New(src, &web.Options{
		Clock: a.Clock, Log: a.Log, Metrics: measured, Traces: a.Traces, MaxAge: s.MaxAge, Folders: s.Folders(), Typed: typed,
		TrustedProxies: proxies, AnyHost: public && len(s.Hosts) == 0 && len(proxies) == 0, Hosts: s.Hosts,
		XRateLimit: s.XRateLimit, Delay: s.ClientDelay, Refused: refused, Budgets: budgets, Connections: b.web,
	})
	if errors.Is(err, quota.ErrBadInput) {
		return nil, console.Config(err)
	}
	return server, err
}

// openSources opens the ledger and the catalog. It returns a function that makes the
// sources of the server by some settings.
func openSources(ctx context.Context, a *session.Session, s *settings.Settings, done *console.Closers) (func(*settings.Settings) (web.Sources, error), error) {
	l, c, err := a.OpenBoth(ctx, s, done)
	if err != nil {
		return nil, err
	}
	board, err := session.OpenBoard(ctx, c)
	if err != nil {
		return nil, err
	}
	return func(s *settings.Settings) (web.Sources, error) {
		tokens, err := s.CallerTokens(warnTo(a))
		runner := ingest.NewRunner(&s.Config, l, c, nil, nil, &ingest.Options{Clock: a.Clock, Log: a.Log})
		src := view.Sources{Ledger: l, Catalog: c, Runner: runner, Jobs: s.List()}
		if board != nil { // else src.Fleet would not be nil
			src.Fleet = board
		}
		if s.Watch {
			src.Counting = &a.Counting
		}
		return web.Sources{Sources: src, Tokens: tokens, Names: slices.Collect(maps.Keys(s.Tokens))}, err
	}, nil
}

// listen listens on an address, with TLS if the settings name a certificate.
func listen(ctx context.Context, s *settings.Settings, address, remedy string) (net.Listener, error) {
	var pair tls.Certificate
	if s.TLSCert != "" {
		var err error
		if pair, err = tls.LoadX509KeyPair(s.TLSCert, s.TLSKey); err != nil {
			return nil, console.Config(fmt.Errorf("tls_cert, tls_key: %w", err))
		}
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, console.CannotListen(err, remedy)
	}
	if s.TLSCert != "" {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
	}
	return l, nil
}

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

func (w accepting) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		w.failed(err)
	}
	return c, err
}

func telling(a *session.Session, l net.Listener, measured *metrics.Metrics, complaints *guard.Complaints) net.Listener {
	return accepting{l, func(err error) {
		measured.AcceptFailed()
		if due, skipped := complaints.Due(fmt.Sprint("accepting at ", l.Addr())); due {
			a.Log.Warn("no connection can be accepted", "at", l.Addr().String(), "error", err, "skipped", skipped)
		}
	}}
}

// probeWithin bounds the wait of a probe. The server gives up after 2 seconds.
const probeWithin = 4 * time.Second

func ProbeCommand(a *session.Session) *cobra.Command {
	return console.Command("probe URL", console.Takes(1, 1, "the address to ask, as http://127.0.0.1:8080/readyz"), func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), probeWithin)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
		if err != nil || req.URL.Host == "" {
			return console.Usage("%q is not an address, as http://127.0.0.1:8080/readyz", args[0])
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("ask the server: %w", err)}
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 500)) // the status says enough
		return &console.Exit{Code: console.ExitDown, Err: fmt.Errorf("the server is not ready: %s %s", answer.Status, console.Plain(string(said)))}
	})
}
