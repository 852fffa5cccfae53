package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
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
