package meter

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// call describes a metered request.
type call struct {
	t        *Transport
	match    book.Match
	upstream *book.Upstream
	method   *book.Method // nil: it has no price
	name     string       // of the method, or the verb and path of a call without a price
	*facts                // of the method, or of a call without a price
	verb     string
	path     string
	resumed  bool // it continues an upload that was charged when it began
	detour   bool // it names a host of the upstream, but is sent to another host
	abroad   bool // a redirect from another host led here: it gets no key
	account  string
	caller   *Caller
	sent     sent
	req      *http.Request      // as the caller made it
	key      string             // that the transport put in
	body     secretBody         // of the answer
	content  *priced            // nil: its price is fixed
	upload   *upload            // the request's body, if its beginning was read; else nil
	keys     map[string]string  // of the keyed pools that it charges, by pool
	granted  *quota.Reservation // nil: it continues an upload
	began    time.Time          // when it was sent
	spilled  string             // to which upstream it went, in place of its own; or ""

	room      sync.Mutex     // guards roomy and spent: the body of an answer may be read while it is found to refuse the call
	roomy     map[string]int // windows of pools that the answer tells to be far from used up; negative: one is not
	spent     []string       // pools that the answer tells to be nearly used up
	free      bool           // the answer costs nothing
	freePools []string       // the pools in which it costs nothing
}

// charges returns the cost of the call by pool, as it was reserved, with its bill.
func (c *call) charges() quota.Units {
	billed := c.method != nil && c.method.Bill != nil && len(c.budgets()) > 0
	if c.content == nil && !billed {
		return c.units
	}
	all := maps.Clone(c.units)
	if billed {
		all[book.Money] = c.method.Bill.Known
	}
	if c.content != nil {
		for pool := range all {
			if estimate, has := c.content.estimate[pool]; has {
				all[pool] = estimate
			}
		}
	}
	return all
}

// budgets are those in money that the call spends.
func (c *call) budgets() []*book.Pool { return c.upstream.BudgetsOf(c.keys, c.name, c.caller.Job) }

// refund takes the call out of its budget.
func (c *call) refund() {
	if b := c.caller.Budget; b != nil {
		b.add(c.spends(nil, c.charges()))
	}
}

// context is that of the caller. It may be needed longer than the round trip takes: until the body
// of the answer ends.
func (c *call) context() context.Context { return c.req.Context() }

// log logs a line about the call.
func (c *call) log(level slog.Level, says string, attrs ...slog.Attr) {
	if l := c.t.set.Logger; l.Enabled(c.context(), level) {
		l.LogAttrs(c.context(), level, says, append(c.attrs(), attrs...)...)
	}
}

func (c *call) attrs() []slog.Attr {
	all := []slog.Attr{slog.String("upstream", c.upstream.Name), slog.String("method", c.name), slog.String("account", c.account)}
	for _, l := range [...]struct{ name, value string }{{"class", c.caller.Class}, {"job", c.caller.Job}, {"region", c.caller.Region}} {
		if l.value != "" {
			all = append(all, slog.String(l.name, l.value))
		}
	}
	return all
}

// identify returns the call that a request makes, or nil if it is not metered. If it
// returns an error, the request must not be sent.
func (t *Transport) identify(req *http.Request) (*call, error) {
	if req.URL == nil {
		return nil, nil // the base returns the error
	}
	costs := t.ledger.Book()
	caller := callerOf(req.Context())
	verb, path := cmp.Or(req.Method, "GET"), requestPath(req.URL)
	match, detour, err := upstreamOf(costs, req, caller.Match, verb, path)
	if err != nil {
		return nil, err
	}
	var from *book.Upstream
	if req.Response != nil { // it follows a redirect
		if from, err = crosses(costs, req); err != nil {
			return nil, err
		}
	}
	if match.Upstream == nil {
		return nil, nil
	}
	c := &call{t: t, match: match, upstream: match.Upstream, method: match.Method, verb: verb, path: path, detour: detour, abroad: from != nil, caller: caller, req: req}
	c.facts = t.facts(costs, c)
	plain, query, _ := strings.Cut(path, "?") // of a URL that is sent as it is
	if c.method != nil {
		c.name = c.method.Name
	} else {
		c.name = verb + " " + plain
	}
	if c.account = cmp.Or(c.caller.Account, t.set.Account); c.upstream.AccountFrom != (book.AccountFrom{}) {
		if c.account, err = accountOf(&match, req, c.caller.Account, t.set.Account); err != nil {
			return c, err
		}
	}
	if name := c.upstream.Key.Query; name != "" && (hasParam(req.URL.RawQuery, name) || hasParam(query, name)) {
		return c, quota.BadInput("%s: the URL has the key in it (%s=), where every error, log and redirect shows it; "+
			"give it to the transport (meter.Options.Keys) and leave it out of the URL", c.upstream.Name, name)
	}
	why := content.Diverted(req.Header, verb, path, match.TakesAny())
	if c.resumed = why == "" && c.upstream.Resumable != "" && resumes(c.upstream, req); c.resumed { // another verb or a batch is no chunk
		return c, nil
	}
	if c.upstream.Mode == book.Observe {
		if why != "" { // the ledger says that it has no price
			c.method, c.name = nil, verb+" "+plain
			c.facts = t.facts(costs, c)
		}
		return c, nil
	}
	if why != "" {
		return c, &quota.UnpricedError{Upstream: c.upstream.Name, Method: c.name, Hint: why}
	}
	return c, nil
}

// accountOf returns the account of a request: that which its context names, or the request
// itself as the price book says, or else the transport's.
func accountOf(m *book.Match, req *http.Request, ofContext, transport string) (string, error) {
	from, named := m.Upstream.AccountFrom, ""
	switch {
	case from.Host > 0:
		named = m.Label(from.Host)
	case from.Header != "":
		values := req.Header.Values(from.Header)
		if len(values) > 1 {
			return ofContext, quota.BadInput("%s: the request has %d headers %s, and each names an account; send one", m.Upstream.Name, len(values), from.Header)
		}
		if len(values) == 1 {
			named = strings.TrimSpace(values[0])
		}
	}
	if err := (quota.Pool{Account: named}).Check(); err != nil {
		return ofContext, fmt.Errorf("the account that the request names: %w", err)
	}
	if ofContext != "" && named != "" && ofContext != named {
		return ofContext, quota.BadInput("%s: the context names account %.40q, and the request %.40q; nobody can say who is charged", m.Upstream.Name, ofContext, named)
	}
	return cmp.Or(ofContext, named, transport), nil
}

// requestPath returns the path as it is sent.
func requestPath(u *url.URL) string {
	if u.Opaque != "" {
		return u.Opaque
	}
	return cmp.Or(u.EscapedPath(), "/")
}

// upstreamOf matches a request with the price book, unless it was matched before. The request is
// metered if the host that it is sent to is metered, or the host that it names. Servers obey the
// latter.
func upstreamOf(costs *quota.Book, req *http.Request, before *book.Match, verb, path string) (m book.Match, detour bool, err error) {
	host := req.Host
	if req.URL.Opaque != "" {
		host = namedHost(req)
	}
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") && req.URL.Opaque != "" {
		if u, err := url.Parse(req.URL.RequestURI()); err == nil { // a URL that is sent whole: it has no price
			path = cmp.Or(u.EscapedPath(), "/")
			defer func() { m.Method, m.Route = nil, nil }()
		}
	}
	m = matchAt(costs, before, req.URL.Scheme, req.URL.Host, verb, path)
	if host == "" || host == req.URL.Host {
		return m, false, nil
	}
	named := matchAt(costs, before, req.URL.Scheme, host, verb, path)
	switch {
	case named.Upstream == nil:
		return m, false, nil
	case m.Upstream != nil && m.Upstream != named.Upstream:
		return m, false, quota.BadInput("the request is sent to %s, but names a host of %s; nobody can say which of the two counts it", m.Upstream.Name, named.Upstream.Name)
	}
	return named, m.Upstream == nil, nil
}

// matchAt matches a request to a host. The book may list the host with or without the
// usual port of the scheme.
func matchAt(costs *quota.Book, before *book.Match, scheme, host, verb, path string) book.Match {
	host = asciiHost(host)
	m := costs.MatchAgain(before, verb, host, path)
	if m.Upstream != nil {
		return m
	}
	host = strings.TrimSuffix(host, ":")
	if strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		return m // it has a port
	}
	return costs.Match(verb, host+usualPort[scheme], path)
}

var usualPort = map[string]string{"http": ":80", "https": ":443"}

// namedHost returns the host that the receiver of a request with an opaque URL reads in it: the
// host of a URL that is sent whole, as to a proxy, or of the Host header.
func namedHost(req *http.Request) string {
	if u, err := url.Parse(req.URL.RequestURI()); err == nil && u.Host != "" {
		return u.Host
	}
	return req.Host
}

// asciiHost returns a host as net/http resolves it.
func asciiHost(host string) string {
	if !strings.ContainsFunc(host, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return host
	}
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	}
	if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		return ascii + port
	}
	return host
}

// crosses returns the upstream that a request leaves, if it follows a redirect from a
// metered host to another host. It returns an error if the price book does not allow that,
// or if it leads from https to http.
func crosses(costs *quota.Book, req *http.Request) (*book.Upstream, error) {
	if req.Response == nil || req.Response.Request == nil {
		return nil, nil
	}
	from, to := req.Response.Request.URL, req.URL
	m, _, _ := upstreamOf(costs, req.Response.Request, nil, "GET", requestPath(from))
	if m.Upstream == nil {
		return nil, nil
	}
	other, safe := hostOf(from) != hostOf(to), from.Scheme == to.Scheme || to.Scheme == "https"
	switch {
	case !other && safe:
		return nil, nil
	case safe && (m.Upstream.MayRedirect(hostOf(to)) || m.Upstream.Mode == book.Observe):
		return m.Upstream, nil
	}
	return nil, &RedirectError{Upstream: m.Upstream.Name, From: from.Scheme + "://" + hostOf(from), To: to.Scheme + "://" + hostOf(to)}
}

// withoutKey returns a request that follows a redirect to another host, without the keys
// that the caller gave the first one. It returns other requests as they are.
func (t *Transport) withoutKey(req *http.Request) *http.Request {
	if req.URL == nil {
		return req
	}
	from, _ := crosses(t.ledger.Book(), req)
	if from == nil || !hasCredential(req.Header, from.Key.Header) {
		return req
	}
	out := *req
	out.Header = req.Header.Clone()
	maps.DeleteFunc(out.Header, func(name string, _ []string) bool { return isCredential(name, from.Key.Header) })
	return &out
}

// hostOf returns the normalised host of a URL, with its port if that is not the usual
// one.
func hostOf(u *url.URL) string {
	host := strings.ToLower(asciiHost(u.Host))
	host = strings.TrimSuffix(host, usualPort[u.Scheme])
	return strings.TrimSuffix(host, ".")
}

// resumes reports whether a request sends a chunk of an upload, or asks about one. The
// upload was charged when it began.
func resumes(u *book.Upstream, req *http.Request) bool {
	return (req.Method == "POST" || req.Method == "PUT") &&
		req.Header.Get("Content-Range") != "" && hasParam(req.URL.RawQuery, u.Resumable)
}

func hasParam(query, name string) bool {
	_, has := content.Param(query, name)
	return has
}
