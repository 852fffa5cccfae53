package proxy

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/problem"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

// target is where a call goes.
type target struct {
	costs    *book.Book
	upstream *book.Upstream
	segment  string // of the path: the upstream, or the upstream@host
	host     string // of the upstream; "" until place has found it
	path     string // escaped
	match    book.Match
	keyed    bool // it gets the key of the proxy
}

// scheme returns how the host of a call is called.
func (t *target) scheme() string { return schemeOf(t.host) }

// schemeOf returns how a host of the price book is called: one on this machine without TLS.
func schemeOf(host string) string {
	if guard.Loopback(host) {
		return "http"
	}
	return "https"
}

// find reads the upstream and the path of a call. The rest of it waits for the token.
func (c *call) find(costs *book.Book) error {
	c.costs = costs
	r := c.request
	c.path = r.URL.EscapedPath()
	if r.Method == http.MethodConnect || r.URL.Host != "" || r.URL.Scheme != "" || r.URL.Opaque != "" || !strings.HasPrefix(r.RequestURI, "/") {
		return refusef(http.StatusBadRequest, "request", "send a path of this proxy, not a whole URL; set the base URL of the SDK, not its proxy")
	}
	segment, rest, more := strings.Cut(strings.TrimPrefix(c.path, "/"), "/")
	name, host, hosted := strings.Cut(segment, "@")
	if !isClean(r.RequestURI, strings.TrimPrefix(c.path, "/")) {
		return refusef(http.StatusBadRequest, "request", "the path is not in clean form: write it without //, backslashes and dots for folders")
	}
	c.upstream = costs.Upstreams[name]
	if c.upstream == nil || hosted && host == "" || !more {
		c.upstream = nil
		return errNoUpstream
	}
	if whole := c.path; !hosted && !c.lists("/"+rest) && c.lists(whole) && strings.HasPrefix(c.match.Route.Path, "/"+name+"/") { // see sole
		rest = whole[1:]
	}
	c.segment, c.path = segment, "/"+rest
	c.host = host
	return nil
}

var errNoUpstream = refusef(http.StatusNotFound, "unknown", "the path begins with none of the upstreams of the price book; send /UPSTREAM/PATH")

// lists reports whether a path is one of a listed method, at the usual host of the upstream.
func (c *call) lists(path string) bool {
	c.match = c.costs.Match(c.request.Method, c.upstream.Host(c.labels.Account, path), path)
	return c.match.Upstream == c.upstream && c.match.Route != nil
}

// sole is find for SDKs that keep only the host of their base URL, such as Google's: a path
// without an upstream is one of the only upstream that the token may call. If the path
// begins with the name of the upstream by itself, as /youtube/v3 does, find knows it.
func (c *call) sole() error {
	only := c.token.Grant().Upstreams
	if len(only) != 1 {
		return errNoUpstream
	}
	if c.upstream = c.costs.Upstreams[only[0]]; c.upstream == nil { // of an old book
		return errNoUpstream
	}
	c.segment, c.path = c.upstream.Name, c.request.URL.EscapedPath()
	return nil
}

// isClean reports whether the rest of a path has no form that changes what it names. The price
// book decides whether an escaped slash does: see [book.Book.Match].
func isClean(uri, rest string) bool {
	path, _, _ := strings.Cut(uri, "?")
	if !strings.HasSuffix(path, "/"+rest) || strings.ContainsAny(path, "\\#") { // it was escaped anew
		return false
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return false
		}
		for name := range strings.SplitSeq(plain, "/") {
			folder, _, _ := strings.Cut(name, ";") // some servers drop what follows
			if folder == "." || folder == ".." || name == "" && (plain != "" || i < len(parts)-1) {
				return false
			}
		}
		for _, c := range []byte(plain) {
			if c == '\\' || c < ' ' || c == 0x7f {
				return false
			}
		}
		if again, err := url.PathUnescape(plain); err == nil && again != plain { // escaped twice
			return false
		}
	}
	return true
}

// place finds the host of a call, and its method. Only hosts of the price book are called.
func (c *call) place() error {
	if c.host == "" {
		c.host = c.upstream.Host(c.labels.Account, c.path)
	}
	c.match = c.costs.MatchAgain(&c.match, c.request.Method, c.host, c.path) // find has mostly done it
	if c.match.Upstream != c.upstream || c.upstream.Listed(c.host) == "" {
		return refusef(http.StatusNotFound, "unknown", "the price book has no host of %s for this path", c.upstream.Name)
	}
	listed := c.match.Route != nil
	if needsKey := c.upstream.Key.Header != "" && !c.upstream.Key.Pass; needsKey && !listed {
		return refusef(http.StatusBadRequest, "unpriced", "the price book lists no method for %s %s, and only listed methods get the key of %s; add one with this route to its methods", c.request.Method, c.path, c.upstream.Name)
	}
	if c.upgrades() && (c.match.Method == nil || !c.match.Method.Upgrade) {
		return refusef(http.StatusBadRequest, "request", "the price book does not say that %s %s may become a WebSocket; if it may, write upgrade: true in its method", c.request.Method, c.path)
	}
	c.keyed = listed && !c.upstream.Key.Pass
	return nil
}

func (c *call) upgrades() bool {
	return strings.EqualFold(c.request.Header.Get("Upgrade"), "websocket")
}

// Address returns the address of an escaped path of an upstream, or "" if the price book has
// no host for it.
func Address(u *book.Upstream, account, path string) string {
	host := u.Host(account, path)
	if host == "" {
		return ""
	}
	return schemeOf(host) + "://" + host + path
}

func (c *call) method() string {
	if c.match.Method == nil {
		return ""
	}
	return c.match.Method.Name
}

// checkSite refuses requests that a web page makes a browser send: to this machine under a foreign
// name, or from a foreign page. A page on another port of this machine is foreign, too.
func (h *Handler) checkSite(r *http.Request) error {
	named := func(host string) bool { return strings.EqualFold(host, guard.Hostname(r.Host)) }
	_, port, err := net.SplitHostPort(r.Host)
	odd := err == nil && strings.Trim(port, "0123456789") != ""
	if odd || !guard.Loopback(r.Host) && !slices.ContainsFunc(h.set.Hosts, named) {
		return refusef(http.StatusMisdirectedRequest, "host", "this proxy answers only requests to localhost and to the hosts that its setting hosts names")
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "none" && site != "same-origin" {
			return errForeignPage
		}
	}
	for _, origin := range r.Header["Origin"] {
		if from, err := url.Parse(origin); err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host) {
			return errForeignPage
		}
	}
	return nil
}

var errForeignPage = refusef(http.StatusForbidden, "cross_site", "a page of another site sent this request")

// refusef returns the error of a request that the proxy does not pass on.
func refusef(status int, kind, format string, args ...any) *problem.Problem {
	return &problem.Problem{Status: status, Code: kind, Detail: fmt.Sprintf(format, args...)}
}

// Labels are what a request says about itself in headers.
type Labels struct {
	Job     string        // Headroom-Job
	Region  string        // Headroom-Region
	Class   string        // Headroom-Class
	Account string        // Headroom-Account
	Wait    time.Duration // Headroom-Wait: how long it may wait for units
}

// labelPrefix begins the headers that are for the proxy.
const labelPrefix = "Headroom-"

// longestWait bounds Headroom-Wait.
const longestWait = time.Hour

func readLabels(h http.Header, defaults Labels) (l Labels, err error) {
	l = defaults
	for _, label := range []struct {
		name string
		to   *string
	}{{"Job", &l.Job}, {"Region", &l.Region}, {"Class", &l.Class}, {"Account", &l.Account}} {
		values, sent := h[labelPrefix+label.name]
		if len(values) > 1 {
			return l, refusef(http.StatusBadRequest, "label", "there are %d headers %s%s; send one", len(values), labelPrefix, label.name)
		}
		if sent {
			*label.to = strings.TrimSpace(values[0])
		}
	}
	if text := strings.TrimSpace(h.Get(labelPrefix + "Wait")); text != "" {
		if l.Wait, err = time.ParseDuration(text); err != nil || l.Wait < 0 || l.Wait > longestWait {
			return l, refusef(http.StatusBadRequest, "label", "Headroom-Wait is %.40q; write a duration up to %s, such as 90s", text, longestWait)
		}
	}
	return l, nil
}

// wait lets a call wait for its units, unless the places of its token are taken. It has one
// until the call asks for a connection: then it has its units.
func (h *Handler) wait(ctx context.Context, c *call) (_ context.Context, done func(), crowded bool) {
	if c.labels.Wait <= 0 {
		return ctx, func() {}, false
	}
	if !h.waiting.Take(c.token.Name(), 1, h.alone()) {
		return ctx, func() {}, true
	}
	done = sync.OnceFunc(func() { h.waiting.Give(c.token.Name(), 1) })
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) { done() }})
	return meter.WithMaxWait(ctx, c.labels.Wait), done, false
}

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
