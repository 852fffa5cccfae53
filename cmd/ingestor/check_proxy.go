package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/headroom-quota/headroom/internal/proxy"
)

// checkProxied checks the keys of other upstreams, and the tokens of programs that may call
// through the proxy.
func checkProxied(ctx context.Context, f *findings, s *settings) {
	keys, err := s.allKeys()
	f.fault("key", err)
	for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
		if keys == nil {
			break
		}
		if _, err := keys[name](ctx); err != nil {
			f.fault("key", &exit{exitCredential, fmt.Errorf("%s: %w", name, err)})
			continue
		}
		f.ok("key", "%s has one, from %s", name, s.Keys[name].File)
	}
	if s.ProxyListen == "" && !slices.ContainsFunc(slices.Collect(maps.Values(s.Tokens)), func(c caller) bool { return c.Calls.given() }) {
		return
	}
	tokens, warnings, err := s.proxyTokens()
	for _, warning := range warnings {
		f.warn("proxy", "%s", warning)
	}
	if err == nil {
		if err = proxy.Check(tokens, s.book); err != nil {
			err = config(err)
		}
	}
	if err != nil {
		f.fault("proxy", err)
		return
	}
	for _, t := range tokens {
		f.ok("proxy", "the token %s may call %s", t.Name, calls(t.Grant))
	}
}
