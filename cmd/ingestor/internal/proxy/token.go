package proxy

import (
	"cmp"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// tokenHeader carries the token of a program whose SDK sends a key of its own.
const tokenHeader = labelPrefix + "Token"

// Check returns an error if one of the tokens names something that the price book does not
// have.
func Check(tokens []*access.Token, costs *quota.Book) error {
	for _, t := range tokens {
		if err := check(t, costs); err != nil {
			return err
		}
	}
	return nil
}

func check(t *access.Token, costs *quota.Book) error {
	g := cmp.Or(t.Grant(), &access.Grant{})
	if !g.Given() {
		return quota.BadInput("the token %s may call no upstream; name some", t.Name())
	}
	methods, classes, accounts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range g.Upstreams {
		u := costs.Upstreams[name]
		if u == nil {
			return quota.BadInput("the token %s names the upstream %q, which the price book does not have; it has %s", t.Name(), name, known(costs.Upstreams))
		}
		for method := range u.Methods {
			methods[method] = true
		}
		for class := range u.Classes {
			classes[class] = true
		}
		for _, account := range u.Accounts {
			accounts[account] = true
		}
		accounts[access.AnyAccount] = true
		if u.AnyAccount {
			for _, account := range g.Accounts {
				accounts[account] = true
			}
		}
	}
	for _, named := range []struct {
		what  string
		names []string
		known map[string]bool
	}{{"method", g.Methods, methods}, {"class", g.Classes, classes}, {"account", g.Accounts, accounts}} {
		for _, name := range named.names {
			if !named.known[name] {
				return quota.BadInput("the token %s names the %s %q, which its upstreams do not have; they have %s", t.Name(), named.what, name, known(named.known))
			}
		}
	}
	return nil
}

func known[V any](all map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// mayBe returns an error if the token may not make the call.
func (c *call) mayBe() error {
	g := c.token.Grant()
	switch what, name := g.Forbids(c.labels.Class, c.account()); {
	case !slices.Contains(g.Upstreams, c.upstream.Name):
		return c.token.Deny("upstream", c.upstream.Name)
	case len(g.Methods) > 0 && !slices.Contains(g.Methods, c.method()):
		return c.token.Deny("method", calledMethod(c))
	case what != "":
		return c.token.Deny(what, name)
	}
	return nil
}

// calledMethod names a method for a person, also one that has no price.
func calledMethod(c *call) string {
	if name := c.method(); name != "" {
		return name
	}
	return c.request.Method + " " + c.path
}

// account returns the account that is charged: that of the label, or that which the
// request names.
func (c *call) account() string {
	named := ""
	switch from := c.upstream.AccountFrom; {
	case from.Host > 0:
		named = c.match.Label(from.Host)
	case from.Header != "":
		named = strings.TrimSpace(c.request.Header.Get(from.Header))
	}
	return cmp.Or(c.labels.Account, named, quota.DefaultAccount)
}

var errNoToken = refusef(http.StatusUnauthorized, "no_token", "send a token of this proxy where the SDK puts its API key; to make one: ingestor token new")

// present returns the token that a request has, or nil. It may be wherever an SDK puts its
// key. If the program's own key is passed on, the token has a header of its own.
func (h *Handler) present(c *call) *access.Token {
	for _, text := range c.presented() {
		if t := access.Find(*h.tokens.Load(), text); t != nil {
			return t
		}
	}
	return nil
}

// mostPresented bounds the texts of a request that are compared with tokens.
const mostPresented = 16

// presented returns the texts of a request that may be its token.
func (c *call) presented() (all []string) {
	add := func(values []string) {
		for _, value := range values {
			all = append(all, texts(value)...)
		}
	}
	header := c.request.Header
	add(header[tokenHeader])
	upstreams := c.costs.Upstreams
	if c.upstream != nil {
		upstreams = map[string]*book.Upstream{c.upstream.Name: c.upstream}
	}
	query, _ := url.ParseQuery(c.request.URL.RawQuery)
	for _, u := range upstreams {
		if u.Key.Pass {
			continue
		}
		add(header["Authorization"])
		add(header.Values(u.Key.Header))
		if u.Key.Query != "" {
			add(query[u.Key.Query])
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), mostPresented)]
}

// texts returns the texts of a header or a parameter that may be a token.
func texts(value string) []string {
	all := []string{value}
	scheme, credentials, is := strings.Cut(strings.TrimSpace(value), " ")
	if !is {
		return all
	}
	credentials = strings.TrimSpace(credentials)
	all = append(all, credentials)
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "Basic") {
		user, password, _ := strings.Cut(string(plain), ":")
		all = append(all, user, password)
	}
	return all
}

// isToken reports whether a header or a parameter has the token of the call. It stays here,
// also where the upstream reads no key: a path without an upstream may have it in the place
// of another one.
func (c *call) isToken(value string) bool { return slices.ContainsFunc(texts(value), c.token.Is) }
