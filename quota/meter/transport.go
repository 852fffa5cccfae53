package meter

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/charged"
	"github.com/headroom-quota/headroom/internal/stretch"
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
	// If the price book has accounts: any, "github@*" is for all accounts without an entry.
	// Its source finds the account in its context ([CallerOf]). A key is sent over TLS
	// only, except to this machine.
	Keys map[string]KeySource

	// Price and Actual are for costs that a price book cannot express, by upstream. Price
	// returns the units to reserve for a request. Actual reads the cost from the answer.
	Price  map[string]PriceFunc
	Actual map[string]ActualFunc

	// Refused returns an answer to a request that was not sent, in place of the error. If it
	// is nil, or returns nil, the caller gets the error. [As429] is for SDKs that retry every
	// error.
	Refused func(req *http.Request, err error) *http.Response

	// Keep is asked before the transport keeps more bytes of a request's body, to read its
	// price. After an error, the call is not sent. The bytes are kept until that body is
	// closed. If Keep is nil, only the request_buffer of the price book bounds each call.
	Keep func(req *http.Request, bytes int64) error

	// Strict refuses requests to hosts that no upstream of the price book lists, with an
	// [UnlistedError]. Otherwise they pass unmetered, and the log names each such host once.
	// In both cases the ledger's observer gets a [quota.EventUnmetered].
	Strict bool

	// Logger gets a line for each stretch of refusals of a pool and method, and calls at
	// debug; nil is slog.Default(). A stretch ends at the first refusal's retry time. It lasts
	// a minute at least, and 15 at most.
	Logger *slog.Logger
}

// Transport is an http.RoundTripper that reserves each call of a metered upstream
// before it leaves. Requests to other hosts pass untouched, unless [Options].Strict is set. It
// is made by [New], and safe for concurrent use.
type Transport struct {
	ledger *quota.Ledger
	set    Options // with the defaults filled in
	keys   keyring

	plans    atomic.Pointer[plans]
	memory   memory
	refusals stretch.Set[refusedLine] // that were logged
	later    later                    // settlements
	owed     owed                     // those that failed
	unlisted unlisted
	shuts    later // blocks of pools, by answers that are no errors
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a transport that spends from the ledger, by its price book. It is an
// error if the ledger was not made by [quota.New], or if a key names an upstream that
// the book does not have: its calls would leave without the key.
func New(ledger *quota.Ledger, o *Options) (*Transport, error) {
	if ledger.Book() == nil {
		return nil, quota.BadInput("meter: a transport needs a ledger: quota.New makes one")
	}
	t := &Transport{ledger: ledger, set: *cmp.Or(o, &Options{})}
	if err := checkKeys(t.set.Keys, ledger.Book()); err != nil {
		return nil, err
	}
	t.keys = newKeyring(t.set.Keys)
	t.set.Account = cmp.Or(t.set.Account, quota.DefaultAccount)
	t.set.Price, t.set.Actual = maps.Clone(t.set.Price), maps.Clone(t.set.Actual)
	t.set.Base, t.set.Logger = cmp.Or(t.set.Base, http.DefaultTransport), cmp.Or(t.set.Logger, slog.Default())
	t.owed.turn = make(chan struct{}, 1)
	t.memory.costs = make(map[costOf]*recent)
	return t, nil
}

// Flush waits for the work that goes on behind the callers' backs: calls whose answers have
// ended are settled, and pools are shut. Then it writes what calls have cost, and the units of
// others that answers have reported. Call it before the program ends; otherwise the last
// calls keep their estimates. If the ledger is out, they are logged, and the error matches
// [quota.ErrOutage]. The transport goes on trying.
func (t *Transport) Flush(ctx context.Context) error {
	if t == nil || t.ledger == nil {
		return errNotMade
	}
	for _, l := range []*later{&t.shuts, &t.later} {
		if err := l.wait(ctx); err != nil {
			return errors.Join(err, t.owed.flush(ctx))
		}
	}
	err := t.owed.flush(ctx)
	t.shareAllCosts(ctx)
	return errors.Join(err, t.ledger.Flush(ctx))
}

var errNotMade = quota.BadInput("this transport was not made by meter.New")

// CloseIdleConnections closes the idle connections of the base transport.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		return
	}
	if c, ok := t.set.Base.(interface{ CloseIdleConnections() }); ok {
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
		return nil, errNotMade
	}
	if req.Response != nil {
		req = t.withoutKey(req)
	}
	c, err := t.identify(req)
	if c == nil && err == nil {
		if err = t.unmetered(req); err == nil {
			return t.set.Base.RoundTrip(req)
		}
	}
	if err == nil {
		if len(t.keys.sources) > 0 {
			c.key, err = t.keys.key(req.Context(), c)
		}
		if err == nil && req.URL.Scheme != "https" {
			err = c.checkCarrier()
		}
	}
	if err == nil && !c.resumed && !c.fixed {
		err = t.price(c, req)
	}
	if err == nil && !c.resumed {
		c, err = t.obtain(c)
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, also on errors
		}
		t.logUnsent(req.Context(), c, err)
		if t.set.Refused != nil {
			if resp := t.set.Refused(req, err); resp != nil {
				return resp, nil
			}
		}
		return nil, err
	}
	resp, err := c.send()
	r := c.granted
	below := RefusalOf(resp) // of another transport of ours, which did not send it
	if resp != nil {
		resp.Request = c.req // not ours, which has the key
		if c.spilled != "" {
			if resp.Header == nil {
				resp.Header = http.Header{}
			}
			resp.Header.Set(SpilledHeader, c.spilled)
			resp.Header.Del("Set-Cookie") // a client would send it to the first upstream
		}
	}
	if below != nil {
		markRefused(resp, below)
	}
	if below != nil && r != nil {
		c.giveBack()
	} else {
		c.settle(resp, err)
	}
	if err != nil || resp == nil || below != nil || len(resp.Header[RefusedHeader]) > 0 { // the upstream did not say it
		r.Unanswered()
		return resp, c.clean(err)
	}
	if err := c.guard(resp); err != nil {
		r.Unanswered()
		if resp.Body != nil {
			_ = resp.Body.Close() // the caller does not get it
		}
		c.log(slog.LevelWarn, "redirect not followed", slog.String("error", err.Error()))
		return nil, err
	}
	if len(c.reports) == 0 && resp.StatusCode < c.refused { // nearly always
		r.Answered()
		return resp, nil
	}
	watchers := c.readFeedback(resp)
	refusals, err := c.readRefusal(resp)
	if err != nil {
		r.Unanswered()
		return nil, err
	}
	watch(resp, append(watchers, refusals...))
	return resp, nil
}

// errPanicked is what a call ended with whose base transport panicked.
var errPanicked = errors.New("the base transport panicked")

// send sends a call. If the base transport panics, the call has ended without an answer.
func (c *call) send() (*http.Response, error) {
	c.began = c.t.ledger.Now()
	panicked := true
	defer func() {
		if panicked {
			c.settle(nil, errPanicked)
		}
	}()
	resp, err := c.t.set.Base.RoundTrip(prepare(c.req, c))
	panicked = false
	return resp, err
}

// asks returns a call as the ledger is asked for it.
func (c *call) asks() quota.Call {
	asked := quota.Call{
		Upstream: c.upstream.Name, Account: c.account, Method: c.name, Keys: c.keys,
		Class: c.caller.Class, Job: c.caller.Job, Region: c.caller.Region, Outage: c.caller.Outage, TellsAnswer: true,
	}
	if c.content != nil {
		asked.Estimate, asked.Model = c.content.estimate, c.content.model
	}
	return asked
}

// reserve reserves the units of a call.
func (c *call) reserve(wait time.Duration) error {
	t, ctx := c.t, c.context()
	if b := c.caller.Budget; b != nil {
		spends := c.spends(c.charges(), nil)
		err := b.take(spends)
		if err != nil && t.later.wait(ctx) == nil { // what has ended may have cost less than it reserved
			err = b.take(spends)
		}
		if err != nil {
			return err
		}
	}
	if err := t.shuts.wait(ctx); err != nil {
		c.refund()
		return err
	}
	done, asked := t.later.done.Load(), c.asks()
	ask := func() (*quota.Reservation, error) {
		if wait > 0 {
			return t.ledger.Wait(ctx, asked, wait)
		}
		return t.ledger.Reserve(ctx, asked)
	}
	r, err := ask()
	if err != nil && errors.Is(err, quota.ErrRefused) {
		// A call that ended before this one may give its units back in a moment.
		if failed := t.later.wait(ctx); failed == nil && t.later.done.Load() != done {
			r, err = ask()
		}
	}
	if err != nil {
		c.refund()
		if unpriced, ok := errors.AsType[*quota.UnpricedError](err); ok && c.method == nil {
			err = &quota.UnpricedError{Upstream: unpriced.Upstream, Method: unpriced.Method, Hint: hint(c)}
		}
		return err
	}
	c.granted = r
	if c.content != nil && c.content.named != "" {
		c.content.rates, _, _ = c.content.plan.Rates(c.content.named, quota.SystemClock{}.Now())
	}
	if record := charged.Of(ctx); record != nil {
		record.Grant(c.keys, r)
	}
	if err := ctx.Err(); err != nil { // nothing has left yet
		c.giveBack()
		return err
	}
	if t.set.Logger.Enabled(ctx, slog.LevelDebug) {
		c.log(slog.LevelDebug, "call granted",
			slog.String("pool", r.Pool.String()), r.Pool.Logged("units", r.Units), r.Pool.Logged("used", r.Used), r.Pool.Logged("limit", r.Limit))
	}
	return nil
}

// prepare makes the request that is sent: a copy, because a RoundTripper must not
// change the one it is given.
func prepare(req *http.Request, c *call) *http.Request {
	out := req.WithContext(c.sent.watch(req.Context(), c.upstream.Key.Header))
	if c.upload != nil {
		out.Body = c.upload
	}
	if c.key != "" {
		out.Header = req.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		own := func(name string, _ []string) bool { return strings.EqualFold(name, c.upstream.Key.Header) }
		maps.DeleteFunc(out.Header, own) // in whatever spelling the caller has set one
		out.Header.Set(c.upstream.Key.Header, c.key)
	}
	return out
}

// refusedLine is what the lines of a stretch of refusals have in common.
type refusedLine struct {
	pool                       quota.Pool
	window                     string
	blocked                    bool
	method, class, job, region string
}

func lineOf(c *call, r *quota.RefusedError) refusedLine {
	line := refusedLine{pool: r.Pool, window: r.Window, blocked: r.Blocked}
	if c != nil {
		line.method, line.class, line.job, line.region = c.name, c.caller.Class, c.caller.Job, c.caller.Region
	}
	return line
}

// logUnsent logs a line for a call that was not sent. A refusal ends by itself, so its level
// is info. Everything else is a warning. Refusals that repeat in a stretch are debugging, and so
// are calls in an outage of the ledger that repeat within a minute.
func (t *Transport) logUnsent(ctx context.Context, c *call, err error) {
	var attrs []slog.Attr
	if c != nil {
		attrs = c.attrs()
	}
	level, says := slog.LevelWarn, "call not sent"
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		level, says = slog.LevelInfo, "call refused"
		before, first := t.refusals.Begins(lineOf(c, refused), refused.At, refused.RetryAt)
		if !first {
			level = slog.LevelDebug
		} else if before > 0 {
			attrs = append(attrs, slog.Int64("refused_before", before))
		}
		attrs = append(attrs,
			slog.String("pool", refused.Pool.String()), slog.String("window", refused.Window),
			refused.Pool.Logged("units", refused.Units), refused.Pool.Logged("used", refused.Used), refused.Pool.Logged("limit", refused.Limit),
			slog.String("retry_after", refused.RetryAfter.Round(time.Second).String()), slog.Time("retry_at", refused.RetryAt))
		if refused.BlockedBy != "" {
			attrs = append(attrs, slog.String("blocked_by", string(refused.BlockedBy)))
		}
		if refused.Reason != "" {
			attrs = append(attrs, slog.String("reason", refused.Reason))
		}
	} else {
		if outage, ok := errors.AsType[*quota.OutageError](err); ok {
			line, now := lineOf(c, &quota.RefusedError{}), t.ledger.Now()
			line.window = outage.Op
			before, first := t.refusals.Begins(line, now, now)
			if !first {
				level = slog.LevelDebug
			} else if before > 0 {
				attrs = append(attrs, slog.Int64("unsent_before", before))
			}
		}
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	t.set.Logger.LogAttrs(ctx, level, says, attrs...)
}
