package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/internal/pattern"
	"github.com/headroom-quota/headroom/quota/meter"
)

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

// keyFile names the file of an API key.
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

// checkProxy checks the settings of the proxy.
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
		switch c := s.Tokens[name].Calls; {
		case c.Budget < 0:
			faults.add("tokens."+name+".calls.budget", "it must be 0 or more")
		case !c.Given() && (len(c.Methods)+len(c.Classes)+len(c.Accounts) > 0 || c.Budget > 0):
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
func (s *Settings) ProxyTokens() (all []*proxy.Token, warnings []string, err error) {
	var known []*access.Token
	for _, name := range slices.Sorted(maps.Keys(s.Tokens)) {
		c := s.Tokens[name]
		if !c.Calls.Given() {
			continue
		}
		var more []string
		if known, more, err = readToken(known, "tokens."+name, name, c.File, nil); err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, more...)
		t := &proxy.Token{Token: known[len(known)-1], Name: name, Grant: c.Calls}
		if what, value := t.Forbids(s.ProxyClass, s.ProxyAccount); what == "class" || what != "" && s.ProxyAccount != "" {
			warnings = append(warnings, fmt.Sprintf("the token %s may not use the %s %q of proxy_%[2]s, so its calls without a header Headroom-%[4]s are refused; "+
				"add it to tokens.%[1]s.calls", name, what, value, strings.ToUpper(what[:1])+what[1:]))
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, nil, console.Config(errors.New("no program may call through the proxy\nMake a token, and say what it may call:\n" +
			"  ingestor token new etl.token\n  tokens: {etl: {file: etl.token, calls: {upstreams: [youtube]}}}"))
	}
	return all, warnings, nil
}

// NeedKeys returns an error if a token may call an upstream whose key is missing.
func (s *Settings) NeedKeys(tokens []*proxy.Token, keys map[string]meter.KeySource) error {
	names := slices.Collect(maps.Keys(keys))
	for _, t := range tokens {
		for _, upstream := range proxy.WithoutKey(s.Book, names, t.Upstreams) {
			return &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("the token %s may call %s, but there is no key for it\n"+
				"Save the key in a file that only you can read, and name it:\n  keys: {%[2]s: {file: %[2]s.key}}", t.Name, upstream)}
		}
	}
	return nil
}
