package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// Serving are the settings of the server. The name is exported because the decoders want
// that of an embedded type.
type Serving struct {
	Listen         string        `yaml:"listen,omitempty" restart:"yes" flag:"'address' to listen on; port 0 chooses a free one" doc:"The address of ingestor serve."`
	ProbeListen    string        `yaml:"probe_listen,omitempty" restart:"yes" flag:"'address' for probes: /livez, /readyz and, of ingestor proxy, /metrics" doc:"An address that answers only /livez and /readyz, over plain HTTP, so that no client can crowd probes out. That of ingestor proxy answers /metrics, too."`
	Socket         string        `yaml:"socket,omitempty" restart:"yes" flag:"'path' of a Unix socket that answers ingestor quota of others" doc:"The path of a Unix socket at which ingestor serve answers ingestor quota of this machine's users. Its file is for the user and the group of the server. Empty turns it off."`
	EnvoyListen    string        `yaml:"envoy_listen,omitempty" restart:"yes" flag:"'address' for Envoy's rate limit service over gRPC" doc:"An address that answers Envoy's rate limit service over gRPC, with the tokens and the certificate of the server. Empty turns it off."`
	RiverListen    string        `yaml:"river_listen,omitempty" restart:"yes" flag:"'address' for River's own pages, see river_ui" doc:"An address that serves River's own pages of a fleet to people with a token that has the right operate. They come from river_ui. Empty turns it off."`
	RiverUI        string        `yaml:"river_ui,omitempty" restart:"yes" doc:"Where River's program riverui listens, as http://127.0.0.1:8082. It has no token, so only this machine should reach it."`
	Insecure       bool          `yaml:"insecure,omitempty" restart:"yes" flag:"allow plain HTTP on other interfaces" doc:"Allow plain HTTP on other interfaces than the loopback one."`
	Hosts          []string      `yaml:"hosts,omitempty" restart:"yes" flag:"host 'names' that requests may ask for, beside localhost" doc:"Host names without ports that requests may ask for, beside localhost. Empty with a public listen address allows any."`
	TrustedProxies []string      `yaml:"trusted_proxies,omitempty" restart:"yes" flag:"'networks' of trusted proxies, as 10.0.0.0/8" doc:"Networks of proxies whose word about client addresses is trusted, as 10.0.0.0/8."`
	TLSCert        string        `yaml:"tls_cert,omitempty" restart:"yes" flag:"PEM 'file' with the certificate" doc:"A PEM file with the certificate of the server."`
	TLSKey         string        `yaml:"tls_key,omitempty" restart:"yes" flag:"PEM 'file' with the key of the certificate" doc:"A PEM file with the key of the certificate."`
	TokenFile      string        `yaml:"token_file,omitempty" flag:"'file' with the token of clients; INGESTOR_TOKEN takes precedence" doc:"A file with the token for clients that reserve over HTTP. INGESTOR_TOKEN takes precedence. Without a token no client can."`
	XRateLimit     bool          `yaml:"x_ratelimit_headers,omitempty" restart:"yes" doc:"Add X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (in seconds) to answers, for clients that know no other headers."`
	ClientDelay    time.Duration `yaml:"client_delay,omitempty" restart:"yes" doc:"How long a request to ingestor serve waits for the limit of its client, in place of a 429. At most 5s."`
	MaxAge         time.Duration `yaml:"max_age,omitempty" restart:"yes" zero:"no" doc:"A chart older than this is stale."`
}

func (s *Settings) checkServer() (faults faults) {
	proxies, bad := s.Proxies()
	if bad != nil {
		faults.add("trusted_proxies", "%w", bad)
	}
	for _, at := range []struct{ setting, address, protocol string }{{"listen", s.Listen, "HTTP"}, {"envoy_listen", s.EnvoyListen, "gRPC"}, {"river_listen", s.RiverListen, "HTTP"}} {
		public, err := web.Public(at.address)
		switch {
		case at.address == "" && at.setting != "listen":
		case err != nil:
			faults.add(at.setting, "%q is not an address; %w", at.address, err)
		case public && s.TLSCert == "" && len(proxies) == 0 && bad == nil && !s.Insecure:
			faults.add(at.setting, "%s is plain %s that other machines can reach\nSet tls_cert and tls_key, or trusted_proxies to the networks of your proxy, or insecure", at.address, at.protocol)
		case public && len(proxies) > 0 && len(s.Hosts) == 0 && at.protocol == "HTTP":
			faults.add("hosts", "%s is behind a proxy, which passes requests for any name on\nName the hosts that the proxy is asked for, as hosts: [quota.example.com]", at.address)
		}
	}
	ui, err := url.Parse(s.RiverUI)
	switch {
	case s.RiverUI != "" && (err != nil || ui.Host == "" || ui.Scheme != "http" && ui.Scheme != "https" || ui.User != nil):
		faults.add("river_ui", "it is not the URL of riverui, as http://127.0.0.1:8082")
	case s.RiverUI == "" && s.RiverListen != "":
		faults.add("river_listen", "it serves the pages of river_ui\nSet river_ui to the URL of riverui, as http://127.0.0.1:8082")
	}
	if _, err := web.Public(s.ProbeListen); err != nil && s.ProbeListen != "" {
		faults.add("probe_listen", "%q is not an address; %w", s.ProbeListen, err)
	}
	for _, host := range s.Hosts {
		if strings.ContainsAny(host, "/: *") && net.ParseIP(host) == nil {
			faults.add("hosts", "%q is not a host name without its port, as feeds.example.org", host)
		}
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		faults.add("tls_cert", "tls_cert and tls_key must be set together")
	}
	if s.ClientDelay < 0 || s.ClientDelay > 5*time.Second {
		faults.add("client_delay", "it must be 0 to 5s, because the server ends requests that take long")
	}
	if s.MaxAge <= 0 {
		faults.add("max_age", "it must be above 0, as 26h")
	}
	return faults
}

// Proxies returns the networks of trusted proxies.
func (s *Settings) Proxies() (all []netip.Prefix, err error) {
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

// Scheme is that of addresses with the certificate of the settings.
func (s *Settings) Scheme() string {
	if s.TLSCert != "" {
		return "https"
	}
	return "http"
}

// Proxying are the settings of the proxy. The name is exported because the decoders want
// that of an embedded type.
type Proxying struct {
	ProxyListen  string        `yaml:"proxy_listen,omitempty" restart:"yes" flag:"'address' of the proxy; port 0 chooses a free one" doc:"The address of the proxy. ingestor proxy listens on 127.0.0.1:8090 without it. With it, ingestor serve runs the proxy, too."`
	ProxyJob     string        `yaml:"proxy_job,omitempty" restart:"yes" doc:"The job of calls through the proxy that have no header Headroom-Job."`
	ProxyRegion  string        `yaml:"proxy_region,omitempty" restart:"yes" doc:"The region of calls through the proxy that have no header Headroom-Region."`
	ProxyClass   string        `yaml:"proxy_class,omitempty" restart:"yes" doc:"The class of calls through the proxy that have no header Headroom-Class."`
	ProxyAccount string        `yaml:"proxy_account,omitempty" restart:"yes" doc:"The account of calls through the proxy that have no header Headroom-Account."`
	ProxyWait    time.Duration `yaml:"proxy_wait,omitempty" restart:"yes" flag:"longest 'duration' for units to wait, if a call has no header Headroom-Wait" doc:"How long a call through the proxy waits for units, if it has no header Headroom-Wait."`
	ProxyWaiting int           `yaml:"proxy_waiting,omitempty" restart:"yes" zero:"no" doc:"How many calls through the proxy may wait for units at once. A token may have as many of these places as it leaves free for other tokens."`
	ProxyGrace   time.Duration `yaml:"proxy_grace,omitempty" restart:"yes" zero:"no" doc:"How long open calls through the proxy may finish when it is told to stop."`
}

// ProxyListen is where the proxy listens without a setting.
const ProxyListen = "127.0.0.1:8090"

type keyFile struct {
	File string `yaml:"file" doc:"A file with the whole value of the header, as Bearer TOKEN. It is read when a key is needed."`
}

// Grants returns what the tokens may call that are bounded, by name.
func (s *Settings) Grants() map[string]*access.Grant {
	all := map[string]*access.Grant{}
	for name, c := range s.Tokens {
		if c.Calls.Given() {
			all[name] = &c.Calls
		}
	}
	return all
}

// OnlyCalls reports whether a caller has no right but to call through the proxy.
func (c caller) OnlyCalls() bool { return c.Calls.Given() && len(c.Rights) == 0 }

// keyName is the form of the name of a key: an upstream, or an upstream@account.
var (
	keyName    = pattern.Of(`^[a-z0-9_-]{1,64}(@([a-z0-9_-]{1,64}|\*))?$`)
	errKeyName = errors.New("the name of a key is an upstream, or upstream@account, in lower case and without dots")
)

func (s *Settings) checkProxy() (faults faults) {
	if s.ProxyListen != "" {
		public, err := web.Public(s.ProxyListen)
		switch {
		case err != nil:
			faults.add("proxy_listen", "%q is not an address; write the address as %s", s.ProxyListen, ProxyListen)
		case public && s.TLSCert == "":
			faults.add("proxy_listen", "%s can be reached from other machines, which would send tokens in plain text\nSet tls_cert and tls_key", s.ProxyListen)
		case public && len(s.Hosts) == 0:
			faults.add("proxy_listen", "%s can be reached by other names than localhost\nName them with hosts", s.ProxyListen)
		}
	}
	if s.ProxyWait < 0 || s.ProxyWait > time.Hour {
		faults.add("proxy_wait", "it must be from 0 to 1h")
	}
	if s.ProxyWaiting < 1 {
		faults.add("proxy_waiting", "it must be 1 or more")
	}
	if s.ProxyGrace < time.Second || s.ProxyGrace > time.Hour {
		faults.add("proxy_grace", "it must be from 1s to 1h")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		switch {
		case !keyName().MatchString(name):
			faults.add("keys."+name, "%w", errKeyName)
		case name == Metered || strings.HasPrefix(name, Metered+"@"):
			faults.add("keys."+name, "the keys of %s are those of key_file and accounts", Metered)
		case s.Keys[name].File == "":
			faults.add("keys."+name, "name the file of the key: {file: PATH}")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		c := s.Tokens[name].Calls
		if _, _, err := c.Budget.Read(); err != nil {
			faults.add("tokens."+name+".calls.budget", "%w", err)
		}
		if !c.Given() && (len(c.Methods)+len(c.Classes)+len(c.Accounts) > 0 || c.Budget != "") {
			faults.add("tokens."+name+".calls", "name the upstreams that it may call: upstreams: [%s]", Metered)
		}
	}
	return faults
}

// AllKeys returns the sources of the keys of all upstreams.
func (s *Settings) AllKeys() (map[string]meter.KeySource, error) {
	all := map[string]meter.KeySource{}
	if s.Book.Upstreams[Metered] != nil {
		all = s.KeySources()
	}
	for name, key := range s.Keys {
		upstream, _, _ := strings.Cut(name, "@")
		if s.Book.Upstreams[upstream] == nil {
			return nil, console.Config(s.place(ingest.Fault{Path: "keys." + name, Err: fmt.Errorf("the price book has no upstream %q", upstream)}))
		}
		all[name] = func(context.Context) (string, error) {
			text, err := os.ReadFile(key.File)
			return strings.TrimSpace(string(text)), err
		}
	}
	return all, nil
}

// ProxyTokens returns the tokens of the programs that may call through the proxy.
func (s *Settings) ProxyTokens(warn func(string)) (all []*access.Token, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		c := s.Tokens[name]
		if !c.Calls.Given() {
			continue
		}
		if all, err = readToken(all, "tokens."+name, name, c.File, nil, &c.Calls, warn); err != nil {
			return nil, err
		}
		if what, value := c.Calls.Forbids(s.ProxyClass, s.ProxyAccount); what == "class" || what != "" && s.ProxyAccount != "" {
			warn(fmt.Sprintf("the token %s may not use the %s %q of proxy_%[2]s, so its calls without a header Headroom-%[4]s are refused; "+
				"add it to tokens.%[1]s.calls", name, what, value, strings.ToUpper(what[:1])+what[1:]))
		}
	}
	if len(all) == 0 {
		return nil, console.Config(errors.New("no program may call through the proxy\nMake a token, and say what it may call:\n" +
			"  ingestor token new etl.token\n  tokens: {etl: {file: etl.token, calls: {upstreams: [youtube]}}}"))
	}
	return all, nil
}

// Proxied returns the tokens of the programs that may call through the proxy, and the keys of the
// upstreams. It returns an error if they do not fit each other or the price book.
func (s *Settings) Proxied(warn func(string)) (tokens []*access.Token, keys map[string]meter.KeySource, err error) {
	if keys, err = s.AllKeys(); err != nil {
		return nil, nil, err
	}
	if tokens, err = s.ProxyTokens(warn); err != nil {
		return nil, nil, err
	}
	if err := proxy.Check(tokens, s.Book); err != nil {
		return nil, nil, console.Config(err)
	}
	return tokens, keys, s.NeedKeys(tokens, keys)
}

// NeedKeys returns an error if a token may call an upstream whose key is missing.
func (s *Settings) NeedKeys(tokens []*access.Token, keys map[string]meter.KeySource) error {
	names := slices.Collect(maps.Keys(keys))
	for _, t := range tokens {
		for _, upstream := range proxy.WithoutKey(s.Book, names, t.Grant().Upstreams) {
			return &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("the token %s may call %s, but there is no key for it\n"+
				"Save the key in a file that only you can read, and name it:\n  keys: {%[2]s: {file: %[2]s.key}}", t.Name(), upstream)}
		}
	}
	return nil
}

// Reconciling are the settings about Google's own count. The name is exported because the
// decoders want that of an embedded type.
type Reconciling struct {
	GoogleProject      string        `yaml:"google_project,omitempty" restart:"yes" flag:"'id' of the Google project whose units are counted" doc:"The Google project of the API key, for ingestor reconcile and watch. Empty is the project of the credentials."`
	GoogleCredentials  string        `yaml:"google_credentials,omitempty" restart:"yes" flag:"'file' of the service account that may read Google's own count" doc:"A file with the key of a service account that has the role roles/monitoring.viewer. Empty means the default credentials of the environment."`
	Watch              bool          `yaml:"watch,omitempty" restart:"yes" flag:"compare the ledger with Google's own count every few minutes" doc:"Compare the ledger with Google's own count every few minutes in ingestor run and serve, and record the units of others."`
	WatchEvery         time.Duration `yaml:"watch_every,omitempty" restart:"yes" zero:"no" doc:"How often watch asks for Google's own count."`
	AdoptLimits        bool          `yaml:"adopt_limits,omitempty" restart:"yes" flag:"use the limits that Google reports, also those above the price book" doc:"Use the limits of a day that Google reports in place of the quotas of the price book, also larger ones. Without it they are shown only."`
	MonitoringEndpoint string        `yaml:"monitoring_endpoint,omitempty" restart:"yes" doc:"Another address of Cloud Monitoring, such as that of a proxy."`
}

// watchEvery is how often Google's own count is read. It comes about seven minutes late.
const watchEvery = 3 * time.Minute

// learnLimits makes the price book adopt larger limits, too, if the settings say so.
func (s *Settings) learnLimits() {
	u := s.Book.Upstreams[Metered]
	if u == nil {
		return
	}
	nameMetrics(u)
	for _, pool := range u.Pools {
		if pool.Metric != "" && s.AdoptLimits {
			pool.LearnLimit = true
		}
	}
}

// nameMetrics gives the pools of a price book that names no metrics those of the built-in
// book: earlier books have none.
func nameMetrics(u *book.Upstream) {
	for _, pool := range u.Pools {
		if pool.Metric != "" {
			return
		}
	}
	builtin, err := headroom.Load("")
	if err != nil { // a test reads it
		return
	}
	for name, pool := range u.Pools {
		if known := builtin.Upstreams[Metered].Pools[name]; known != nil {
			pool.Metric = known.Metric
		}
	}
}

// CountsUnits reports whether the settings say how to read Google's own count.
func (s *Settings) CountsUnits() bool {
	if s.Watch || s.GoogleProject != "" || s.GoogleCredentials != "" {
		return true
	}
	for _, own := range s.Accounts {
		if own.Project != "" {
			return true
		}
	}
	return false
}

// KeySources returns the sources of the API keys, by account. Each is read when it is needed.
func (s *Settings) KeySources() map[string]meter.KeySource {
	keys := map[string]meter.KeySource{
		Metered: func(context.Context) (string, error) {
			if key := strings.TrimSpace(os.Getenv("YOUTUBE_API_KEY")); key != "" {
				return checkKey(key, "YOUTUBE_API_KEY")
			}
			if s.KeyFile == "" {
				return "", errors.New("set YOUTUBE_API_KEY, or key_file in the configuration")
			}
			return readKey(s.KeyFile)
		},
	}
	if s.Key != nil {
		keys[Metered] = s.Key
	}
	for name, account := range s.Accounts {
		keys[Metered+"@"+name] = func(context.Context) (string, error) { return readKey(account.KeyFile) }
	}
	return keys
}

// KeyOf returns the name of the key of an account, or of the default one if the name is empty.
func KeyOf(account string) string {
	if account == "" || account == quota.DefaultAccount {
		return Metered
	}
	return Metered + "@" + account
}

func readKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no key file %s", path)
	}
	if err != nil {
		return "", fmt.Errorf("read the key file: %w", err)
	}
	return checkKey(strings.TrimSpace(string(text)), path)
}

// checkKey returns an error if a text cannot be a key. The error does not show it.
func checkKey(key, where string) (string, error) {
	switch {
	case key == "":
		return "", fmt.Errorf("%s is empty; write the key into it", where)
	case strings.HasPrefix(key, "YOUTUBE_API_KEY"):
		return "", fmt.Errorf("%s has a name before its key; write the key alone", where)
	case strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		return "", fmt.Errorf("%s holds more than a key; write the key alone, on one line", where)
	}
	return key, nil
}

// TokenVariable holds the token without a name itself. It is not a setting, because
// settings are shown.
const TokenVariable = "INGESTOR_TOKEN"

// caller is a program that reserves over HTTP with a token of its own.
type caller struct {
	File   string         `yaml:"file" doc:"A file with its token. To make one: ingestor token new FILE."`
	Rights []access.Right `yaml:"rights,omitempty" words:"reserve|read|limits|operate" doc:"What it may do: reserve units of pools, read the pools, and charge limits, which are the families of the price book. All these if empty. A person who acts on the pages, or changes limits of keys over HTTP, needs operate."`
	Calls  access.Grant   `yaml:"calls,omitempty" doc:"What it may call through ingestor proxy; without it, nothing. It bounds what the token may do over HTTP, too. A token with calls and no rights has no other right."`
}

// callerName is the form of a caller's name. It begins the name of its jobs in the spend.
var (
	CallerName    = pattern.Of(`^[a-z0-9][a-z0-9_-]{0,39}$`)
	ErrCallerName = errors.New("a name has up to 40 lower-case letters, digits, - and _")
)

func (s *Settings) checkCallers() (faults faults) {
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		path := "tokens." + name
		if !CallerName().MatchString(name) {
			faults.add(path, "%w", ErrCallerName)
		}
		if s.Tokens[name].File == "" {
			faults.add(path, "name the file of its token: {file: PATH}\nTo make one: ingestor token new PATH")
		}
		for _, right := range s.Tokens[name].Rights {
			if !slices.Contains(append(slices.Clip(access.Rights), access.Operate), right) {
				faults.add(path, "there is no right %q; there are reserve, read, limits and operate", right)
			}
		}
	}
	return faults
}

// CallerTokens returns the tokens of those who may reserve over HTTP. Without one, nobody can.
func (s *Settings) CallerTokens(warn func(string)) (all []*access.Token, err error) {
	text := os.Getenv(TokenVariable)
	switch {
	case text != "":
		all, err = addToken(all, TokenVariable, "", text, nil, nil)
	case s.TokenFile != "":
		all, err = readToken(all, "token_file", "", s.TokenFile, nil, nil, warn)
	}
	if err != nil {
		return nil, err
	}
	grants := s.Grants()
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		if s.Tokens[name].OnlyCalls() {
			continue
		}
		if all, err = readToken(all, "tokens."+name, name, s.Tokens[name].File, s.Tokens[name].Rights, grants[name], warn); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readToken(all []*access.Token, setting, name, path string, rights []access.Right, grant *access.Grant, warn func(string)) ([]*access.Token, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, console.Config(fmt.Errorf("%s: there is no %s\nTo create one: ingestor token new FILE", setting, path))
	}
	if err != nil {
		return nil, console.Config(fmt.Errorf("%s: %w", setting, err))
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		warn(fmt.Sprintf("other users can read %s\nTo prevent that: chmod 600 %[1]s", path))
	}
	return addToken(all, setting+": "+path, name, string(text), rights, grant)
}

// addToken adds a token after checking it. White space around it is ignored. Without
// rights it has all.
func addToken(all []*access.Token, from, name, text string, rights []access.Right, grant *access.Grant) ([]*access.Token, error) {
	if len(rights) == 0 {
		rights = access.Rights
	}
	token, err := access.New(name, strings.TrimSpace(text), rights...)
	if err != nil {
		return nil, console.Config(fmt.Errorf("%s: %w", from, err))
	}
	if slices.ContainsFunc(all, token.Same) {
		return nil, console.Config(fmt.Errorf("%s: another caller has the same token; each needs its own: ingestor token new FILE", from))
	}
	return append(all, token.Bound(grant)), nil
}
