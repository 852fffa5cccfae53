package meter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
)

// Options are what [New] can be told; nil is legal.
type Options struct {
	Base http.RoundTripper // makes the calls; nil is http.DefaultTransport

	// MaxWait is how long a refused call may wait for its units. A refusal that is
	// farther off, or past the deadline of the call's context, comes at once, and so
	// does every one if MaxWait is zero. The Timeout of an http.Client includes the
	// waiting.
	MaxWait time.Duration

	// Account is who makes the calls whose context names no other (see [WithAccount]);
	// "" is quota.DefaultAccount.
	Account string

	// Keys are the API keys, by "youtube", or "youtube@staging" for an account that is
	// not quota.DefaultAccount. A key travels in the header that the price book names,
	// to the hosts of its upstream only. Without an entry for the upstream requests
	// keep the headers they have; with one, an account that has none is refused.
	Keys map[string]KeySource

	Logger *slog.Logger // nil is slog.Default(); one line per refusal, and calls at debug
}

// Transport is an http.RoundTripper that reserves each call of a metered upstream
// before it leaves. Requests to other hosts pass untouched. It is made by [New],
// and safe for concurrent use.
type Transport struct {
	ledger  *quota.Ledger
	base    http.RoundTripper
	maxWait time.Duration
	account string
	keys    keyring
	log     *slog.Logger
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a transport that spends from the ledger, by its price book. It is an
// error if the ledger was not made by [quota.New], or if a key names an upstream that
// the book does not have: its calls would leave without the key.
func New(ledger *quota.Ledger, o *Options) (*Transport, error) {
	if ledger.Book() == nil {
		return nil, quota.BadInput("meter: a transport needs a ledger: quota.New makes one")
	}
	if o == nil {
		o = &Options{}
	}
	if err := checkKeys(o.Keys, ledger.Book()); err != nil {
		return nil, err
	}
	t := &Transport{
		ledger: ledger, base: o.Base, maxWait: o.MaxWait, log: o.Logger,
		account: cmp.Or(o.Account, quota.DefaultAccount), keys: newKeyring(o.Keys),
	}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.log == nil {
		t.log = slog.Default()
	}
	return t, nil
}

// CloseIdleConnections closes the idle connections of the base transport.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		return
	}
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper]. A refused request is not sent and costs
// nothing. Its error is the ledger's: see [quota.Ledger.Reserve].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil || t.ledger == nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, also on errors
		}
		return nil, quota.BadInput("this transport was not made by meter.New")
	}
	c, err := t.identify(req)
	if c == nil && err == nil {
		return t.base.RoundTrip(req)
	}
	var key string
	if err == nil {
		key, err = t.keys.key(req.Context(), c)
	}
	var r *quota.Reservation
	if err == nil && !c.resumed {
		c.keys = c.pageKeys(keyIn(req))
		r, err = t.reserve(req.Context(), c)
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, also on errors
		}
		t.logUnsent(req.Context(), c, err)
		return nil, err
	}
	resp, err := t.base.RoundTrip(prepare(req, c, key))
	t.settle(req.Context(), c, r, err)
	if err != nil || resp == nil {
		return resp, err
	}
	resp.Request = req // not ours, which has the key
	if err := t.readRefusal(req.Context(), c, resp, key); err != nil {
		return nil, err
	}
	return resp, nil
}

// reserve takes the units of a call.
func (t *Transport) reserve(ctx context.Context, c *call) (*quota.Reservation, error) {
	asked := quota.Call{
		Upstream: c.upstream.Name, Account: c.account, Method: c.name, Keys: c.keys,
		Class: c.caller.class, Job: c.caller.job, Region: c.caller.region, Outage: c.caller.outage,
	}
	if err := c.caller.budget.take(c.units()); err != nil {
		return nil, err
	}
	var r *quota.Reservation
	var err error
	if t.maxWait > 0 {
		r, err = t.ledger.Wait(ctx, asked, t.maxWait)
	} else {
		r, err = t.ledger.Reserve(ctx, asked)
	}
	if err != nil {
		c.caller.budget.give(c.units())
		var unpriced *quota.UnpricedError
		if errors.As(err, &unpriced) && c.method == nil {
			err = &quota.UnpricedError{Upstream: unpriced.Upstream, Method: unpriced.Method, Hint: hint(t.ledger.Book(), c)}
		}
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nothing has left yet
		t.giveBack(ctx, c, r)
		return nil, err
	}
	if t.log.Enabled(ctx, slog.LevelDebug) {
		t.log.LogAttrs(ctx, slog.LevelDebug, "call granted", append(c.attrs(),
			slog.String("pool", r.Pool.String()), slog.Int64("units", r.Units), slog.Int64("used", r.Used), slog.Int64("limit", r.Limit))...)
	}
	return r, nil
}

// prepare makes the request that is sent: a copy, because a RoundTripper must not
// change the one it is given.
func prepare(req *http.Request, c *call, key string) *http.Request {
	out := req.WithContext(c.sent.watch(req.Context(), c.upstream.Key.Header))
	if key != "" {
		out.Header = req.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		for name := range out.Header { // in whatever spelling the caller has set one
			if strings.EqualFold(name, c.upstream.Key.Header) {
				delete(out.Header, name)
			}
		}
		out.Header.Set(c.upstream.Key.Header, key)
	}
	return out
}

// logUnsent logs one line for a call that was not sent. A refusal ends by itself, so its
// level is info. Everything else is a warning.
func (t *Transport) logUnsent(ctx context.Context, c *call, err error) {
	var attrs []slog.Attr
	if c != nil {
		attrs = c.attrs()
	}
	level, says := slog.LevelWarn, "call not sent"
	var refused *quota.RefusedError
	if errors.As(err, &refused) {
		level, says = slog.LevelInfo, "call refused"
		attrs = append(attrs,
			slog.String("pool", refused.Pool.String()), slog.String("window", refused.Window),
			slog.Int64("units", refused.Units), slog.Int64("used", refused.Used), slog.Int64("limit", refused.Limit),
			slog.String("retry_after", refused.RetryAfter.Round(time.Second).String()), slog.Time("retry_at", refused.RetryAt))
		if refused.BlockedBy != "" {
			attrs = append(attrs, slog.String("blocked_by", string(refused.BlockedBy)))
		}
		if refused.Reason != "" {
			attrs = append(attrs, slog.String("reason", refused.Reason))
		}
	} else {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	t.log.LogAttrs(ctx, level, says, attrs...)
}
