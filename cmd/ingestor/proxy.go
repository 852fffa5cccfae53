package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/metrics"
	"github.com/headroom-quota/headroom/internal/proxy"
	"github.com/headroom-quota/headroom/internal/refusals"
	"github.com/headroom-quota/headroom/internal/web"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Proxying are the settings of the proxy. The name is exported because the decoders want
// that of an embedded type.
type Proxying struct {
	ProxyListen  string        `yaml:"proxy_listen,omitempty" restart:"yes" flag:"'address' of the proxy; port 0 chooses a free one" jsonschema_description:"The address of the proxy. ingestor proxy listens on 127.0.0.1:8090 without it. With it, ingestor serve runs the proxy, too."`
	ProxyJob     string        `yaml:"proxy_job,omitempty" restart:"yes" jsonschema_description:"The job of calls through the proxy that have no header Headroom-Job."`
	ProxyRegion  string        `yaml:"proxy_region,omitempty" restart:"yes" jsonschema_description:"The region of calls through the proxy that have no header Headroom-Region."`
	ProxyClass   string        `yaml:"proxy_class,omitempty" restart:"yes" jsonschema_description:"The class of calls through the proxy that have no header Headroom-Class."`
	ProxyAccount string        `yaml:"proxy_account,omitempty" restart:"yes" jsonschema_description:"The account of calls through the proxy that have no header Headroom-Account."`
	ProxyWait    time.Duration `yaml:"proxy_wait,omitempty" restart:"yes" flag:"longest 'duration' for units to wait, if a call has no header Headroom-Wait" jsonschema_description:"How long a call through the proxy waits for units, if it has no header Headroom-Wait."`
	ProxyWaiting int           `yaml:"proxy_waiting,omitempty" restart:"yes" zero:"no" jsonschema_description:"How many calls through the proxy may wait for units at once. A token may have as many of these places as it leaves free for other tokens."`
	ProxyGrace   time.Duration `yaml:"proxy_grace,omitempty" restart:"yes" zero:"no" jsonschema_description:"How long open calls through the proxy may finish when it is told to stop."`
}

// proxyListen is where the proxy listens without a setting.
const proxyListen = "127.0.0.1:8090"

// keyFile names the file of an API key.
type keyFile struct {
	File string `yaml:"file" jsonschema_description:"A file with the whole value of the header, as Bearer TOKEN. It is read when a key is needed."`
}

// calls are what a token may call, through the proxy and over HTTP.
type calls struct {
	Upstreams []string `yaml:"upstreams" jsonschema_description:"The upstreams that it may call."`
	Methods   []string `yaml:"methods,omitempty" jsonschema_description:"The methods that it may call; all of its upstreams if empty."`
	Classes   []string `yaml:"classes,omitempty" jsonschema_description:"The classes that its calls may have, beside none."`
	Accounts  []string `yaml:"accounts,omitempty" jsonschema_description:"The accounts whose units it may spend; only the default account if empty, any with '*'."`
	Budget    int64    `yaml:"budget,omitempty" jsonschema_description:"The units that it may spend on a day in UTC, of all pools together; 0 is no bound."`
}

func (c calls) given() bool { return len(c.Upstreams) > 0 }

func (c calls) String() string {
	text := strings.Join(c.Upstreams, " ")
	for _, part := range []struct {
		name  string
		names []string
	}{{"methods", c.Methods}, {"classes", c.Classes}, {"accounts", c.Accounts}} {
		if len(part.names) > 0 {
			text += fmt.Sprintf(", %s %s", part.name, strings.Join(part.names, " "))
		}
	}
	if c.Budget > 0 {
		text += fmt.Sprintf(", budget %d", c.Budget)
	}
	return text
}

// grants returns what the tokens may call that are bounded, by name.
func (s *settings) grants() map[string]*web.Grant {
	all := map[string]*web.Grant{}
	for name, c := range s.Tokens {
		if c.Calls.given() {
			grant := web.Grant(c.Calls)
			all[name] = &grant
		}
	}
	return all
}

// onlyCalls reports whether a caller has no right but to call through the proxy.
func (c caller) onlyCalls() bool { return c.Calls.given() && len(c.Rights) == 0 }

func (a *app) proxyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Meter the calls of programs that cannot be changed",
		Long: `Meter the calls of programs in any language. A program sets the base URL of its SDK, and
nothing else: http://127.0.0.1:8090/youtube, or /github, or any upstream of the price
book. The proxy reserves the units of each call in the ledger, adds the API key, and sends
the call to the upstream. A refusal is an answer with status 429 and Retry-After, in the
form of the upstream's own errors.

A program sends a token of the proxy where its SDK puts the API key. The configuration says
what each token may call:

  tokens:
    etl:
      file: etl.token
      calls: {upstreams: [youtube], methods: [videos.list], classes: [backfill], budget: 2000}

The key of YouTube comes from YOUTUBE_API_KEY or key_file. Those of other upstreams are
files that hold the whole value of the header:

  keys:
    github: {file: github.key}

The headers Headroom-Job, Headroom-Region, Headroom-Class and Headroom-Account label a call.
Headroom-Wait says how long it may wait for its units, such as 90s. /UPSTREAM@HOST calls
another host of the upstream.

The body of a refusal, and the header Headroom-Refused, say what to do: see docs/proxy.md.
--probe-listen answers /livez, /readyz and /metrics.

The proxy listens only on this machine by default. Other interfaces need TLS, and the names
that programs use, with --hosts. With proxy_listen in the configuration, ingestor serve runs
the proxy, too.

` + onHangup,
		Example: `  ingestor token new etl.token; ingestor proxy
  ingestor proxy --proxy-listen 127.0.0.1:0 --proxy-wait 30s
  curl -H "X-Goog-Api-Key: $(cat etl.token)" "http://127.0.0.1:8090/youtube/youtube/v3/videos?part=id&id=abc"`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runProxy(cmd) },
	}
	addFlags(cmd, cmd.Flags(), forServers, "listen", "insecure", "trusted_proxies", "token_file")
	return cmd
}

// keyName is the form of the name of a key: an upstream, or an upstream@account.
var (
	keyName    = regexp.MustCompile(`^[a-z0-9_-]{1,64}(@([a-z0-9_-]{1,64}|\*))?$`)
	errKeyName = errors.New("the name of a key is an upstream, or upstream@account, in lower case and without dots")
)

// checkProxy checks the settings of the proxy.
func (s *settings) checkProxy() (faults []ingest.Fault) {
	fault := func(path, format string, args ...any) {
		faults = append(faults, ingest.Fault{Path: path, Err: fmt.Errorf(format, args...)})
	}
	if s.ProxyListen != "" {
		public, err := web.Public(s.ProxyListen)
		switch {
		case err != nil:
			fault("proxy_listen", "%q is not an address; write the address as %s", s.ProxyListen, proxyListen)
		case public && s.TLSCert == "":
			fault("proxy_listen", "%s can be reached from other machines, which would send tokens in plain text\nSet tls_cert and tls_key", s.ProxyListen)
		case public && len(s.Hosts) == 0:
			fault("proxy_listen", "%s can be reached by other names than localhost\nName them with hosts", s.ProxyListen)
		}
	}
	if s.ProxyWait < 0 || s.ProxyWait > time.Hour {
		fault("proxy_wait", "it must be from 0 to 1h")
	}
	if s.ProxyWaiting < 1 {
		fault("proxy_waiting", "it must be 1 or more")
	}
	if s.ProxyGrace < time.Second || s.ProxyGrace > time.Hour {
		fault("proxy_grace", "it must be from 1s to 1h")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		switch {
		case !keyName.MatchString(name):
			fault("keys."+name, "%w", errKeyName)
		case name == metered || strings.HasPrefix(name, metered+"@"):
			fault("keys."+name, "the keys of %s are those of key_file and accounts", metered)
		case s.Keys[name].File == "":
			fault("keys."+name, "name the file of the key: {file: PATH}")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		switch c := s.Tokens[name].Calls; {
		case c.Budget < 0:
			fault("tokens."+name+".calls.budget", "it must be 0 or more")
		case !c.given() && (len(c.Methods)+len(c.Classes)+len(c.Accounts) > 0 || c.Budget > 0):
			fault("tokens."+name+".calls", "name the upstreams that it may call: upstreams: [%s]", metered)
		}
	}
	return faults
}

// allKeys returns the sources of the keys of all upstreams.
func (s *settings) allKeys() (map[string]meter.KeySource, error) {
	all := map[string]meter.KeySource{}
	if s.book.Upstreams[metered] != nil {
		all = s.keys()
	}
	for name, key := range s.Keys {
		upstream, _, _ := strings.Cut(name, "@")
		if s.book.Upstreams[upstream] == nil {
			return nil, config(s.place(ingest.Fault{Path: "keys." + name, Err: fmt.Errorf("the price book has no upstream %q", upstream)}))
		}
		all[name] = func(context.Context) (string, error) {
			text, err := os.ReadFile(key.File)
			return strings.TrimSpace(string(text)), err
		}
	}
	return all, nil
}

// proxyTokens returns the tokens of the programs that may call through the proxy.
func (s *settings) proxyTokens() (all []*proxy.Token, warnings []string, err error) {
	var known []*web.Token
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		c := s.Tokens[name]
		if !c.Calls.given() {
			continue
		}
		var more []string
		if known, more, err = readToken(known, "tokens."+name, name, c.File, nil); err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, more...)
		t := &proxy.Token{Token: known[len(known)-1], Name: name, Grant: proxy.Grant(c.Calls)}
		if what, value := t.Forbids(s.ProxyClass, s.ProxyAccount); what == "class" || what != "" && s.ProxyAccount != "" {
			warnings = append(warnings, fmt.Sprintf("the token %s may not use the %s %q of proxy_%[2]s, so its calls without a header Headroom-%[4]s are refused; "+
				"add it to tokens.%[1]s.calls", name, what, value, strings.ToUpper(what[:1])+what[1:]))
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, nil, config(errors.New("no program may call through the proxy\nMake a token, and say what it may call:\n" +
			"  ingestor token new etl.token\n  tokens: {etl: {file: etl.token, calls: {upstreams: [youtube]}}}"))
	}
	return all, warnings, nil
}

// needKeys returns an error if a token may call an upstream whose key is missing.
func (s *settings) needKeys(tokens []*proxy.Token, keys map[string]meter.KeySource) error {
	names := slices.Collect(maps.Keys(keys))
	for _, t := range tokens {
		for _, upstream := range proxy.WithoutKey(s.book, names, t.Upstreams) {
			return &exit{exitCredential, fmt.Errorf("the token %s may call %s, but there is no key for it\n"+
				"Save the key in a file that only you can read, and name it:\n  keys: {%[2]s: {file: %[2]s.key}}", t.Name, upstream)}
		}
	}
	return nil
}

// newProxy returns a proxy with these settings.
func (a *app) newProxy(s *settings, l *quota.Ledger, measured *metrics.Metrics, refused *refusals.Tally, budgets *proxy.Budgets, b bounds) (*proxy.Handler, error) {
	keys, err := s.allKeys()
	if err != nil {
		return nil, err
	}
	tokens, warnings, err := s.proxyTokens()
	for _, warning := range warnings {
		a.log.Warn(warning)
	}
	if err == nil {
		err = s.needKeys(tokens, keys)
	}
	if err != nil {
		return nil, err
	}
	key, err := s.uploadKey()
	if err != nil {
		a.log.Warn("uploads through the proxy end when it is restarted", "error", err)
	}
	h, err := proxy.New(l, tokens, &proxy.Options{
		Base: s.baseOfAll(), Clock: a.clock, Log: a.log, Metrics: measured, Keys: keys, Memory: filepath.Join(s.state, "proxy-costs.json"), Hosts: s.Hosts,
		Defaults: proxy.Labels{Job: s.ProxyJob, Region: s.ProxyRegion, Class: s.ProxyClass, Account: s.ProxyAccount, Wait: s.ProxyWait},
		Waiting:  s.ProxyWaiting, Grace: s.ProxyGrace, Refused: refused, Budgets: budgets, UploadKey: key, Connections: b.proxy,
		Metered: func(t http.RoundTripper) http.RoundTripper { return a.traces.Calls(l, t) },
	})
	if errors.Is(err, quota.ErrBadInput) {
		return nil, config(err)
	}
	return h, err
}

// baseOfAll makes the calls of all upstreams. The setting endpoint is the address of the
// upstream of the jobs alone.
func (s *settings) baseOfAll() http.RoundTripper {
	base := proxy.NewTransport()
	to, err := url.Parse(s.Endpoint)
	if s.Endpoint == "" || err != nil { // checkCommand has read it
		return base
	}
	return &redirectedOne{book: s.book, redirected: redirected{to: to, base: base}, base: base}
}

// redirectedOne sends the calls of the upstream of the jobs to another address.
type redirectedOne struct {
	book       *quota.Book
	redirected redirected
	base       http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (r *redirectedOne) RoundTrip(req *http.Request) (*http.Response, error) {
	if m := r.book.Match(req.Method, req.URL.Host, req.URL.EscapedPath()); m.Upstream != nil && m.Upstream.Name == metered {
		return r.redirected.RoundTrip(req)
	}
	return r.base.RoundTrip(req)
}

// listenProxy adds the listener of the proxy to others.
func (a *app) listenProxy(ctx context.Context, s *settings, h *proxy.Handler, others []beside) ([]beside, error) {
	secure, err := s.secured()
	if err != nil {
		return others, err
	}
	var how net.ListenConfig
	l, err := how.Listen(ctx, "tcp", cmp.Or(s.ProxyListen, proxyListen))
	if err != nil {
		return others, cannotListen(err, "ingestor proxy --proxy-listen 127.0.0.1:0")
	}
	fmt.Fprintf(a.stdout, "proxy on %s://%s\n", s.scheme(), l.Addr())
	return append(others, beside{l, func(ctx, abort context.Context, l net.Listener) error { return h.Serve(ctx, abort, l, secure) }}), nil
}

func (a *app) runProxy(cmd *cobra.Command) error {
	hangups := listenForHangups()
	defer hangups.stop()
	var measured *metrics.Metrics
	ready := func(*settings) error {
		measured = metrics.New(&metrics.Options{Log: a.log})
		a.observer = measured
		return nil
	}
	return a.withMeter(cmd, exitDone, ready, func(ctx context.Context, s *settings, l *quota.Ledger, _ *closers) error {
		return a.serveProxy(ctx, s, l, measured, hangups)
	})
}

func (a *app) serveProxy(ctx context.Context, s *settings, l *quota.Ledger, measured *metrics.Metrics, hangups hangups) error {
	refused, stop := a.keepRefusals(ctx, a.savedIn(s))
	defer stop()
	h, err := a.newProxy(s, l, measured, refused, nil, a.bounds(s, false))
	if err != nil {
		return err
	}
	served, err := a.listenProxy(ctx, s, h, nil)
	if err != nil {
		return err
	}
	probes := web.NewProbes(l, &web.Options{Clock: a.clock, Log: a.log, Metrics: measured, Hosts: s.Hosts})
	if served, err = a.listenProbes(ctx, s, probes, served, "ingestor proxy"); err != nil {
		return errors.Join(err, closeAll(served))
	}
	defer hangups.reload(ctx, a, s, true, func(_ context.Context, next *settings) error {
		update, err := a.reloadedProxy(h, s, next)
		if err == nil {
			err = l.SetBook(next.book)
		}
		if err == nil {
			update()
		}
		return err
	})()
	return a.serveAll(ctx, measured, served)
}

// sameKeys returns an error if the keys of a proxy that runs with the old settings are others
// now. The text of a key file may change: it is read when a key is needed.
func (s *settings) sameKeys(old *settings) error {
	fault := func(key string) error {
		return fmt.Errorf("%s has changed, and the proxy takes its keys when it starts\nTo use the new value, restart the program, or restore the old one", key)
	}
	switch {
	case s.KeyFile != old.KeyFile:
		return fault("key_file")
	case !maps.Equal(s.Accounts, old.Accounts):
		return fault("accounts")
	case !maps.Equal(s.Keys, old.Keys):
		return fault("keys")
	}
	return nil
}

// reloadedProxy reads the tokens of a proxy again, and returns how to replace them. The proxy
// was started with the settings old.
func (a *app) reloadedProxy(h *proxy.Handler, old, next *settings) (update func(), err error) {
	if err := next.sameKeys(old); err != nil {
		return nil, err
	}
	tokens, warnings, err := next.proxyTokens()
	for _, warning := range warnings {
		a.log.Warn(warning)
	}
	if err == nil {
		err = proxy.Check(tokens, next.book)
	}
	if err == nil {
		var keys map[string]meter.KeySource
		if keys, err = next.allKeys(); err == nil {
			err = next.needKeys(tokens, keys)
		}
	}
	return func() { h.Update(tokens) }, err
}
