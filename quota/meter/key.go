package meter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// KeySource returns an API key, or whatever else the header takes. It is asked for
// each call; its error must not hold the key.
type KeySource func(context.Context) (string, error)

// Key is a source that always has the same key.
func Key(key string) KeySource {
	return func(context.Context) (string, error) { return key, nil }
}

// owner names an account of an upstream: "youtube", or "youtube@staging".
func owner(upstream, account string) string {
	if account == quota.DefaultAccount {
		return upstream
	}
	return upstream + "@" + account
}

// keyring holds the keys of accounts, by their owners.
type keyring struct {
	sources   map[string]KeySource
	upstreams map[string]bool
}

// checkKeys returns an error if keys has a key that no call could use.
func checkKeys(keys map[string]KeySource, costs *quota.Book) error {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		upstream, _, _ := strings.Cut(name, "@")
		switch {
		case costs.Upstreams[upstream] == nil:
			return quota.BadInput("meter: Keys has %q, but the price book has no such upstream; it has %s", name, strings.Join(slices.Sorted(maps.Keys(costs.Upstreams)), ", "))
		case keys[name] == nil:
			return quota.BadInput("meter: Keys has %q without a source; leave it out, or write meter.Key(...)", name)
		}
	}
	return nil
}

func newKeyring(keys map[string]KeySource) keyring {
	k := keyring{sources: make(map[string]KeySource, len(keys)), upstreams: make(map[string]bool)}
	for name, source := range keys {
		upstream, _, _ := strings.Cut(name, "@")
		k.sources[strings.TrimSuffix(name, "@"+quota.DefaultAccount)] = source
		k.upstreams[upstream] = true
	}
	return k
}

// key returns the key of a call, or "" if the keyring has no key for the upstream.
func (k *keyring) key(ctx context.Context, c *call) (string, error) {
	if !k.upstreams[c.upstream.Name] || c.abroad {
		return "", nil
	}
	failed := func(reason string, err error) error {
		return &CredentialError{Upstream: c.upstream.Name, Account: c.account, Reason: reason, Err: err}
	}
	name := owner(c.upstream.Name, c.account)
	source := k.sources[name]
	if source == nil && c.upstream.AnyAccount { // the source learns whose key it is to return
		source, ctx = k.sources[owner(c.upstream.Name, book.OtherAccounts)], WithAccount(ctx, c.account)
	}
	switch {
	case source == nil:
		return "", failed(fmt.Sprintf("there is no key; add %q to meter.Options.Keys", name), nil)
	case c.detour:
		return "", failed("the call names a host of the upstream but is sent to another, and the key is not; add that one to hosts in costs.yaml, if it may have it", nil)
	case c.upstream.Key.Header == "":
		return "", failed("the price book does not say which header carries the key; add api_key: {header: ...} in costs.yaml", nil)
	}
	key, err := source(ctx)
	switch {
	case err != nil:
		return "", failed("its source failed", err)
	case !headerValue(key):
		return "", failed("its source has none, or one that is not a single line of printable characters", nil)
	}
	return key, nil
}

func headerValue(s string) bool {
	return s != "" && s == strings.TrimSpace(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}
