package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/proxy"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/settings"
)

// checkProxied checks the keys of other upstreams, and the tokens of programs that may call
// through the proxy.
func checkProxied(ctx context.Context, f *findings, s *settings.Settings) {
	keys, err := s.AllKeys()
	f.fault("key", err)
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		if keys == nil {
			break
		}
		if _, err := keys[name](ctx); err != nil {
			f.fault("key", &console.Exit{Code: console.ExitCredential, Err: fmt.Errorf("%s: %w", name, err)})
			continue
		}
		f.ok("key", "%s has one, from %s", name, s.Keys[name].File)
		f.private(s.Keys[name].File)
	}
	if s.ProxyListen == "" && len(s.Grants()) == 0 {
		return
	}
	tokens, warnings, err := s.ProxyTokens()
	for _, warning := range warnings {
		f.warn("proxy", "%s", warning)
	}
	if err == nil {
		if err = proxy.Check(tokens, s.Book); err != nil {
			err = console.Config(err)
		}
	}
	if err == nil && keys != nil {
		err = s.NeedKeys(tokens, keys)
	}
	if err != nil {
		f.fault("proxy", err)
		return
	}
	for _, t := range tokens {
		f.ok("proxy", "the token %s may call %s", t.Name, s.Tokens[t.Name].Calls)
	}
}
