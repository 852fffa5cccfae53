package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/metrics"
	"github.com/headroom-quota/headroom/internal/proxy"
	"github.com/headroom-quota/headroom/internal/refusals"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/internal/web/guard"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// Serving are the settings of the server. The name is exported because the decoders want
// that of an embedded type.
type Serving struct {
	Listen         string        `yaml:"listen,omitempty" restart:"yes" flag:"'address' to listen on; port 0 chooses a free one" jsonschema_description:"The address of ingestor serve."`
	ProbeListen    string        `yaml:"probe_listen,omitempty" restart:"yes" flag:"'address' for probes: /livez, /readyz and, of ingestor proxy, /metrics" jsonschema_description:"An address that answers only /livez and /readyz, over plain HTTP, so that no client can crowd probes out. That of ingestor proxy answers /metrics, too."`
	EnvoyListen    string        `yaml:"envoy_listen,omitempty" restart:"yes" flag:"'address' for Envoy's rate limit service over gRPC" jsonschema_description:"An address that answers Envoy's rate limit service over gRPC, with the tokens and the certificate of the server. Empty turns it off."`
	RiverListen    string        `yaml:"river_listen,omitempty" restart:"yes" flag:"'address' for River's own pages, see river_ui" jsonschema_description:"An address that serves River's own pages of a fleet to people with a token that has the right operate. They come from river_ui. Empty turns it off."`
	RiverUI        string        `yaml:"river_ui,omitempty" restart:"yes" jsonschema_description:"Where River's program riverui listens, as http://127.0.0.1:8082. It has no token, so only this machine should reach it."`
	Insecure       bool          `yaml:"insecure,omitempty" restart:"yes" flag:"allow plain HTTP on other interfaces" jsonschema_description:"Allow plain HTTP on other interfaces than the loopback one."`
	Hosts          []string      `yaml:"hosts,omitempty" restart:"yes" flag:"host 'names' that requests may ask for, beside localhost" jsonschema_description:"Host names without ports that requests may ask for, beside localhost. Empty with a public listen address allows any."`
	TrustedProxies []string      `yaml:"trusted_proxies,omitempty" restart:"yes" flag:"'networks' of trusted proxies, as 10.0.0.0/8" jsonschema_description:"Networks of proxies whose word about client addresses is trusted, as 10.0.0.0/8."`
	TLSCert        string        `yaml:"tls_cert,omitempty" restart:"yes" flag:"PEM 'file' with the certificate" jsonschema_description:"A PEM file with the certificate of the server."`
	TLSKey         string        `yaml:"tls_key,omitempty" restart:"yes" flag:"PEM 'file' with the key of the certificate" jsonschema_description:"A PEM file with the key of the certificate."`
	TokenFile      string        `yaml:"token_file,omitempty" flag:"'file' with the token of clients; INGESTOR_TOKEN takes precedence" jsonschema_description:"A file with the token for clients that reserve over HTTP. INGESTOR_TOKEN takes precedence. Without a token no client can."`
	XRateLimit     bool          `yaml:"x_ratelimit_headers,omitempty" restart:"yes" jsonschema_description:"Add X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (in seconds) to answers, for clients that know no other headers."`
	MaxAge         time.Duration `yaml:"max_age,omitempty" restart:"yes" zero:"no" jsonschema_description:"A chart older than this is stale."`
}

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the fetched data and the state of the quota over HTTP",
		Long: `Serve the fetched data and the state of the quota over HTTP. Requests never reach the
upstream and spend no units. The server reports on all processes that share the ledger
and the catalog. It runs no jobs: that is for ingestor run.

Pages for people are at /: whether the next run can start, the pools, the regions, the
runs, charts and a search. Programs use /api/v1/, which /api/v1/openapi.json describes. A
client may make 60 requests a minute, unless the families client and client_search (and
so on, by route) of the price book say otherwise.

Programs in any language can reserve units on the ledger with POST /v1/reserve,
/v1/settle and /v1/release, and GET /v1/pools. These routes exist only if there is a
token: for each program under tokens in the configuration, or one for all in
INGESTOR_TOKEN or in the file named by --token-file. To make one: ingestor token new.

Envoy, Istio and gateways ask the same ledger over gRPC, with Envoy's rate limit service:
--envoy-listen. The descriptors of the price book say which limits they mean. Calls need a
token of a program, in the metadata authorization.

River's own pages show every row of a fleet's queues. They are behind a token with the
right operate if river_ui names River's program: --river-listen.

Probes may have an address of their own, which no client can crowd: --probe-listen.

The server listens only on this machine by default. Other interfaces need TLS, a proxy
named by --trusted-proxies, or --insecure. A proxy needs --hosts, too: the names that it is
asked for. Browsers protect plain HTTP less: see docs/http-api.md.

` + onHangup,
		Example: `  ingestor serve
  ingestor token new token; ingestor serve --token-file token
  ingestor serve --listen :8443 --tls-cert cert.pem --tls-key key.pem`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serve(cmd)
		},
	}
	addFlags(cmd, cmd.Flags(), forServers)
	addFlags(cmd, cmd.Flags(), forCounts)
	return cmd
}

// checkServer checks the settings of the server.
func (s *settings) checkServer() (faults []ingest.Fault) {
	fault := func(path, format string, args ...any) {
		faults = append(faults, ingest.Fault{Path: path, Err: fmt.Errorf(format, args...)})
	}
	proxies, bad := s.proxies()
	if bad != nil {
		fault("trusted_proxies", "%w", bad)
	}
	for _, at := range []struct{ setting, address, protocol string }{{"listen", s.Listen, "HTTP"}, {"envoy_listen", s.EnvoyListen, "gRPC"}, {"river_listen", s.RiverListen, "HTTP"}} {
		public, err := web.Public(at.address)
		switch {
		case at.address == "" && at.setting != "listen":
		case err != nil:
			fault(at.setting, "%q is not an address; %w", at.address, err)
		case public && s.TLSCert == "" && len(proxies) == 0 && bad == nil && !s.Insecure:
			fault(at.setting, "%s is plain %s that other machines can reach\nSet tls_cert and tls_key, or trusted_proxies to the networks of your proxy, or insecure", at.address, at.protocol)
		case public && len(proxies) > 0 && len(s.Hosts) == 0 && at.protocol == "HTTP":
			fault("hosts", "%s is behind a proxy, which passes requests for any name on\nName the hosts that the proxy is asked for, as hosts: [quota.example.com]", at.address)
		}
	}
	ui, err := url.Parse(s.RiverUI)
	switch {
	case s.RiverUI != "" && (err != nil || ui.Host == "" || ui.Scheme != "http" && ui.Scheme != "https" || ui.User != nil):
		fault("river_ui", "it is not the URL of riverui, as http://127.0.0.1:8082")
	case s.RiverUI == "" && s.RiverListen != "":
		fault("river_listen", "it serves the pages of river_ui\nSet river_ui to the URL of riverui, as http://127.0.0.1:8082")
	}
	if _, err := web.Public(s.ProbeListen); err != nil && s.ProbeListen != "" {
		fault("probe_listen", "%q is not an address; %w", s.ProbeListen, err)
	}
	for _, host := range s.Hosts {
		if strings.ContainsAny(host, "/: *") && net.ParseIP(host) == nil {
			fault("hosts", "%q is not a host name without its port, as feeds.example.org", host)
		}
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		fault("tls_cert", "tls_cert and tls_key must be set together")
	}
	if s.MaxAge <= 0 {
		fault("max_age", "it must be above 0, as 26h")
	}
	return faults
}

// proxies returns the networks of trusted proxies.
func (s *settings) proxies() (all []netip.Prefix, err error) {
	for _, text := range s.TrustedProxies {
		prefix, failed := netip.ParsePrefix(text)
		if addr, one := netip.ParseAddr(text); failed != nil && one == nil {
			prefix, failed = addr.Prefix(addr.BitLen())
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%q is not a network; write it as 10.0.0.0/8", text))
			continue
		}
		all = append(all, prefix.Masked())
	}
	return all, err
}

func (a *app) serve(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	s, err := a.settings(cmd.Flags())
	if err != nil {
		return err
	}
	hangups := listenForHangups()
	defer hangups.stop()
	measured := metrics.New(&metrics.Options{Log: a.log})
	a.observer = measured
	var done closers
	defer func() { err = orStopped(ctx, exitDone, errors.Join(err, done.close())) }()
	a.trace(ctx, &done)
	sources, err := a.openSources(ctx, s, &done)
	if err != nil {
		return err
	}
	src, err := sources(s)
	if err != nil {
		return err
	}
	refused, stop := a.keepRefusals(ctx, src.Catalog.AddRefusals)
	defer stop()
	bounds := a.bounds(s, true)
	budgets := proxy.NewBudgets(src.Ledger, a.clock, a.log)
	budgets.Update(s.grants())
	defer func() { _ = budgets.Flush(context.WithoutCancel(ctx)) }() // the ledger is closed after it
	server, err := a.newServer(s, src, measured, refused, budgets, bounds)
	if err != nil {
		return err
	}
	if public, _ := web.Public(s.Listen); public && s.Insecure && s.TLSCert == "" {
		a.log.Warn("insecure: others on the network can read along, and a page of any site can have its readers' browsers ask this server; set tls_cert and tls_key", "listen", s.Listen)
	}
	if err := a.watchCounts(ctx, s, src.Ledger, &done); err != nil {
		return err
	}
	l, err := listen(ctx, s, s.Listen, "ingestor serve --listen 127.0.0.1:0")
	if err != nil {
		return err
	}
	others, err := a.besides(ctx, s, server)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	proxied := func(*settings) (func(), error) { return func() {}, nil }
	if s.ProxyListen != "" {
		h, err := a.newProxy(s, src.Ledger, measured, refused, budgets, bounds)
		if err == nil {
			others, err = a.listenProxy(ctx, s, h, others)
		}
		if err != nil {
			return errors.Join(err, closeAll(others), l.Close())
		}
		proxied = func(next *settings) (func(), error) { return a.reloadedProxy(h, s, next) }
	}
	fmt.Fprintf(a.stdout, "serving on %s://%s\n", s.scheme(), l.Addr())
	defer hangups.reload(ctx, a, s, true, func(_ context.Context, next *settings) error {
		src, err := sources(next)
		if err != nil {
			return err
		}
		update, err := proxied(next)
		if err == nil {
			err = server.Update(src, next.book)
		}
		if err == nil {
			budgets.Update(next.grants())
			update()
		}
		return err
	})()
	return a.serveAll(ctx, measured, append(others, beside{l, server.Serve}))
}

// beside is a listener beside that of the server: for probes, or for Envoy.
type beside struct {
	net.Listener
	serve func(ctx, abort context.Context, l net.Listener) error
}

// besides opens the other listeners that the settings name.
func (a *app) besides(ctx context.Context, s *settings, server *web.Server) (all []beside, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(all))
		}
	}()
	if all, err = a.listenProbes(ctx, s, server, all, "ingestor serve"); err != nil {
		return all, err
	}
	if s.EnvoyListen != "" {
		l, err := listen(ctx, s, s.EnvoyListen, "ingestor serve --envoy-listen 127.0.0.1:0")
		if err != nil {
			return all, err
		}
		all = append(all, beside{l, server.ServeEnvoy})
		fmt.Fprintf(a.stdout, "Envoy's rate limit service on %s\n", l.Addr())
	}
	if s.RiverListen != "" {
		ui, err := url.Parse(s.RiverUI)
		if err != nil {
			return all, config(err)
		}
		l, err := listen(ctx, s, s.RiverListen, "ingestor serve --river-listen 127.0.0.1:0")
		if err != nil {
			return all, err
		}
		all = append(all, beside{l, server.ServeRiver(ui)})
		fmt.Fprintf(a.stdout, "River's pages on %s://%s\n", s.scheme(), l.Addr())
	}
	return all, nil
}

// listenProbes adds the listener of probes to others, if the settings name one.
func (a *app) listenProbes(ctx context.Context, s *settings, server *web.Server, others []beside, command string) ([]beside, error) {
	if s.ProbeListen == "" {
		return others, nil
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "tcp", s.ProbeListen)
	if err != nil {
		return others, cannotListen(err, command+" --probe-listen 127.0.0.1:0")
	}
	fmt.Fprintf(a.stdout, "probes on http://%s\n", l.Addr())
	return append(others, beside{l, server.ServeProbes}), nil
}

func closeAll(all []beside) (err error) {
	for _, one := range all {
		err = errors.Join(err, one.Close())
	}
	return err
}

// serveAll serves from all listeners. If one ends, so do the others.
func (a *app) serveAll(ctx context.Context, measured *metrics.Metrics, all []beside) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	complaints := guard.NewComplaints(cmp.Or[quota.Clock](a.clock, quota.SystemClock{}))
	ended := make(chan error, len(all))
	for _, one := range all {
		go func() {
			ended <- one.serve(ctx, a.abort, a.telling(one.Listener, measured, complaints))
			stop()
		}()
	}
	var failed error
	for range all {
		failed = errors.Join(failed, <-ended)
	}
	return failed
}

// newServer returns a server with these settings.
func (a *app) newServer(s *settings, src web.Sources, measured *metrics.Metrics, refused *refusals.Tally, budgets *proxy.Budgets, b bounds) (*web.Server, error) {
	proxies, err := s.proxies()
	if err != nil {
		return nil, config(err)
	}
	public, err := web.Public(s.Listen)
	if err != nil {
		return nil, config(err)
	}
	server, err := web.New(src, &web.Options{
		Clock: a.clock, Log: a.log, Metrics: measured, Tracer: a.traces, MaxAge: s.MaxAge,
		TrustedProxies: proxies, AnyHost: public && len(s.Hosts) == 0 && len(proxies) == 0, Hosts: s.Hosts,
		XRateLimit: s.XRateLimit, Refused: refused, Budgets: budgets, Connections: b.web,
	})
	if errors.Is(err, quota.ErrBadInput) {
		return nil, config(err)
	}
	return server, err
}

// openSources opens the ledger and the catalog. It returns a function that makes the
// sources of the server by some settings.
func (a *app) openSources(ctx context.Context, s *settings, done *closers) (func(*settings) (web.Sources, error), error) {
	l, err := a.openLedger(ctx, s, done)
	if err != nil {
		return nil, err
	}
	c, err := a.openCatalog(ctx, s, done)
	if err != nil {
		return nil, err
	}
	board, err := openBoard(ctx, c)
	if err != nil {
		return nil, err
	}
	return func(s *settings) (web.Sources, error) {
		tokens, warnings, err := s.tokens()
		for _, warning := range warnings {
			a.log.Warn(warning)
		}
		runner := ingest.NewRunner(&s.Config, l, c, nil, nil, &ingest.Options{Clock: a.clock, Log: a.log})
		src := view.Sources{Ledger: l, Catalog: c, Runner: runner, Jobs: s.List()}
		if board != nil { // else src.Fleet would not be nil
			src.Fleet = board
		}
		if s.Watch {
			src.Counting = &a.counting
		}
		return web.Sources{Sources: src, Tokens: tokens, Names: slices.Collect(maps.Keys(s.Tokens))}, err
	}, nil
}

// scheme is that of addresses with the certificate of the settings.
func (s *settings) scheme() string {
	if s.TLSCert != "" {
		return "https"
	}
	return "http"
}

// secured returns the TLS of the settings, or nil if they name no certificate.
func (s *settings) secured() (*tls.Config, error) {
	if s.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		return nil, config(fmt.Errorf("tls_cert, tls_key: %w", err))
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

// listen listens on an address, with TLS if the settings name a certificate.
func listen(ctx context.Context, s *settings, address, remedy string) (net.Listener, error) {
	with, err := s.secured()
	if err != nil {
		return nil, err
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cannotListen(err, remedy)
	}
	if with != nil {
		l = tls.NewListener(l, with)
	}
	return l, nil
}
