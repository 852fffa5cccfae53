package meter

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/content"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// SpilledHeader is in the answer to a call that went to another upstream, because its own had no units.
// It names that upstream, as "azure-east", or "openai@second" for an account.
const SpilledHeader = "Headroom-Spilled"

// obtain reserves the units of a call before it is sent. If its upstream has none now, the call goes to the
// first of those that have some to which it may spill. Otherwise it waits for its own. It returns the call
// that is sent.
func (t *Transport) obtain(c *call) (*call, error) {
	ctx := c.context()
	wait := c.wait()
	if !c.match.MaySpill() || c.detour || c.req.Response != nil {
		return c, c.reserve(wait)
	}
	var refused error
	if wait <= 0 || !t.ledger.InLine(ctx, c.asks()) {
		if refused = c.reserve(0); !errors.Is(refused, quota.ErrRefused) {
			return c, refused
		}
	}
	for i := range c.upstream.Spill {
		s := &c.upstream.Spill[i]
		to, err := t.spill(c, s, cmp.Or(s.Account, c.account))
		if err == nil {
			c.log(slog.LevelDebug, "call spilled", slog.String("to", s.String()))
			t.ledger.Spilled(ctx, c.asks(), to.spilled)
			return to, nil
		}
		c.log(slog.LevelDebug, "call does not spill", slog.String("to", s.String()), slog.String("error", err.Error()))
	}
	if wait <= 0 {
		return c, refused
	}
	return c, c.reserve(wait)
}

var errNoSpill = errors.New("the other upstream does not have the call, there is no key for it, or the caller may not use it")

// spill reserves the units of a call at another upstream, or at another account of its own. The call has
// its body whatever comes of it.
func (t *Transport) spill(c *call, s *book.Spill, account string) (*call, error) {
	req := c.moved(s.Upstream, account)
	if req == nil || s.Upstream == c.upstream && account == c.account {
		return nil, errNoSpill
	}
	to, err := t.identify(req)
	switch {
	case err != nil:
		return nil, err
	case to == nil || to.upstream != s.Upstream || to.match.Route == nil || to.account != account || to.resumed, // or the book has just changed
		c.caller.Spill != nil && !c.caller.Spill(req, &to.match, false):
		return nil, errNoSpill
	}
	if to.key, err = t.keys.key(req.Context(), to); err == nil && to.key == "" && to.upstream.Key.Header != "" {
		err = errNoSpill
	}
	if err == nil && req.URL.Scheme != "https" {
		err = to.checkCarrier()
	}
	if err == nil && !to.fixed {
		err = t.priceAgain(c, to)
	}
	if err != nil {
		return nil, err
	}
	to.upload, to.spilled = c.upload, s.String()
	if err := to.reserve(0); err != nil {
		return nil, err
	}
	if c.caller.Spill != nil {
		c.caller.Spill(req, &to.match, true)
	}
	return to, nil
}

// priceAgain prices a call by another book's rules. What was read of its body is read again, and what is
// read now is kept for the first call, too.
func (t *Transport) priceAgain(c, to *call) error {
	req := to.req
	if c.upload != nil {
		if !c.upload.whole {
			return errNoSpill
		}
		again := *req
		again.GetBody, req = c.upload.again, &again
	}
	err := t.price(to, req)
	c.upload = cmp.Or(c.upload, to.upload)
	return err
}

// moved returns the request of a call as another upstream gets it, or nil if it cannot get it. It has none of the
// caller's credentials, which are for the first upstream.
func (c *call) moved(u *book.Upstream, account string) *http.Request {
	path, secrets := c.match.PathAt(u), c.hidden()
	host := u.Host(account, path)
	plain, err := url.PathUnescape(path)
	if path == "" || host == "" || err != nil || secrets.in(path) {
		return nil
	}
	to := &url.URL{Scheme: "https", Host: host, Path: plain, RawPath: path}
	to.RawQuery = content.FilterQuery(c.req.URL.RawQuery, func(name, value string) bool {
		return name != "" && name == c.upstream.Key.Query || slices.Contains(content.CredentialParams, strings.ToLower(name)) || secrets.in(name) || secrets.in(value)
	})
	if loopback(to.Hostname()) {
		to.Scheme = "http"
	}
	out := c.req.WithContext(WithAccount(c.req.Context(), account))
	out.URL, out.Host, out.Header = to, "", c.req.Header.Clone()
	private := func(name string) bool {
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) // as servers read it that make variables of headers
		return slices.Contains(content.Credentials, name) || slices.ContainsFunc([]string{c.upstream.Key.Header, c.upstream.AccountFrom.Header, u.Key.Header, u.AccountFrom.Header},
			func(own string) bool { return strings.EqualFold(own, name) })
	}
	maps.DeleteFunc(out.Header, func(name string, values []string) bool {
		return private(name) || slices.ContainsFunc(values, secrets.in)
	})
	for name := range out.Trailer {
		if private(name) {
			out.Trailer = nil
		}
	}
	if u.AccountFrom.Header != "" && account != quota.DefaultAccount { // which the request names by no header
		out.Header.Set(u.AccountFrom.Header, account)
	}
	return out
}
