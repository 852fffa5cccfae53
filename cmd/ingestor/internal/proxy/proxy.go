// Package proxy is a reverse proxy that meters the calls of programs that cannot be changed.
// A program sets the base URL of its SDK to that of the proxy and an upstream, such as
// http://127.0.0.1:8090/github, and sends a token where its SDK puts the API key. The proxy
// reserves the units of each call in the ledger, adds the key, and sends the call to the
// upstream's host.
//
// Metering is that of package meter. [net/http/httputil.ReverseProxy] passes on bodies,
// trailers and the end of a request. This package decides who may make which call, and keeps
// keys, cookies and addresses of the upstream from the program.
package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/access"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/metrics"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/record"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/refusals"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
	"github.com/headroom-quota/headroom/internal/places"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/meter"
)

const (
	// DefaultWaiting is the default of [Options.Waiting].
	DefaultWaiting = 256
	// DefaultGrace is the default of [Options.Grace].
	DefaultGrace = 10 * time.Second
)

// Options are the settings of [New]; nil is legal.
type Options struct {
	Base  http.RoundTripper // makes the calls; nil is a [NewTransport]
	Clock quota.Clock       // nil: the machine's
	Log   *slog.Logger      // nil: slog.Default()

	// Metrics count what the proxy turns away; nil counts nothing.
	Metrics *metrics.Metrics
	// Keys are the API keys of upstreams, as in [meter.Options.Keys].
	Keys map[string]meter.KeySource
	// Metered wraps the transport that meters, such as with traces; nil adds nothing.
	Metered func(http.RoundTripper) http.RoundTripper

	// Hosts are the host names without ports that requests may ask for, beside localhost.
	Hosts []string
	// Defaults are the labels of requests that do not send them.
	Defaults Labels
	// Grace is how long open requests may finish when the proxy stops; zero is DefaultGrace.
	Grace time.Duration
	// Waiting is how many calls may wait for units at once; zero is DefaultWaiting. Of these
	// places, a token may have as many as it leaves free for other tokens. A call beyond them
	// is refused at once if its units are missing.
	Waiting int
	// Connections bounds the open connections; zero is DefaultConnections. One address may have
	// a quarter of them, and a token half as many calls under way.
	Connections int
	// Told is called for each call that was answered, with nil, and for each one that was
	// refused for lack of units, with the refusal and the time at which units come back, if it
	// is known. It may be nil.
	Told func(why error, retryAt time.Time)
	// Budgets are shared with a decision service in the same process; nil makes new ones.
	Budgets *Budgets
	// Record keeps what drafts of price books need of the calls; nil keeps nothing.
	Record *record.Recorder
	// Refused counts the calls that the ledger refused; nil counts nothing.
	Refused *refusals.Tally
	// UploadKey signs the addresses of uploads. It is secret. Proxies with the same one go on
	// with each other's uploads. Nil is a random one, so uploads end with the process.
	UploadKey []byte
}

// Handler is the proxy.
type Handler struct {
	ledger *quota.Ledger
	set    Options // with the defaults filled in

	keyed   *meter.Transport // of calls that get the key of the proxy
	keyless *meter.Transport
	keysOf  map[string]bool            // upstreams whose calls keyed gives a key, or does not send
	by      map[bool]http.RoundTripper // the two, wrapped
	proxy   httputil.ReverseProxy
	waiting *places.Places[string] // places to wait for units, by token
	bodies  *places.Places[string] // bytes of bodies that are kept, by token
	linger  time.Duration          // for which the rest of a refused request is read
	crowds
	secrets secrets

	tokens atomic.Pointer[[]*access.Token]
}

// New returns a proxy that spends from a ledger, for programs with these tokens.
func New(ledger *quota.Ledger, tokens []*access.Token, o *Options) (*Handler, error) {
	h := &Handler{ledger: ledger, set: *cmp.Or(o, &Options{}), bodies: places.New[string](mostKept), linger: headerTimeout}
	o = &h.set
	h.waiting, o.Grace = places.New[string](int64(cmp.Or(o.Waiting, DefaultWaiting))), cmp.Or(o.Grace, DefaultGrace)
	if len(o.UploadKey) == 0 {
		o.UploadKey = make([]byte, sha256.Size)
		_, _ = rand.Read(o.UploadKey) // it never fails
	}
	o.Clock, o.Log = cmp.Or[quota.Clock](o.Clock, quota.SystemClock{}), cmp.Or(o.Log, slog.Default())
	if o.Base == nil {
		o.Base = NewTransport()
	}
	if o.Record != nil {
		o.Base = o.Record.Transport(o.Base, recorded)
	}
	if o.Told == nil {
		o.Told = func(error, time.Time) {}
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(&metrics.Options{Log: o.Log})
	}
	if o.Budgets == nil {
		o.Budgets = NewBudgets(ledger, o.Clock, o.Log)
	}
	h.door = guard.NewDoor("ingestor proxy", o.Clock, o.Log, o.Metrics)
	most := cmp.Or(o.Connections, DefaultConnections)
	h.mostOfToken = max(most/2, 1)
	h.crowd = guard.NewCrowd(most, max(most/4, 1), netip.Addr.IsLoopback, h.door.Closed)
	h.calls = guard.NewCounts[string](h.mostOfToken)
	keys := make(map[string]meter.KeySource, len(o.Keys))
	for name, source := range o.Keys {
		keys[name] = noted(source)
	}
	for _, name := range WithoutKey(ledger.Book(), slices.Collect(maps.Keys(o.Keys)), slices.Collect(maps.Keys(ledger.Book().Upstreams))) {
		keys[name] = func(context.Context) (string, error) { return "", errNoKey } // its calls are not sent
	}
	options := meter.Options{Base: o.Base, Logger: h.set.Log, Keys: keys, Keep: h.keep}
	var err error
	if h.keyed, err = meter.New(ledger, &options); err != nil {
		return nil, err
	}
	options.Keys = nil
	if h.keyless, err = meter.New(ledger, &options); err != nil {
		return nil, err
	}
	h.keysOf = map[string]bool{}
	for name := range keys {
		upstream, _, _ := strings.Cut(name, "@")
		h.keysOf[upstream] = true
	}
	h.by = map[bool]http.RoundTripper{true: h.keyed, false: h.keyless}
	if o.Metered != nil {
		h.by = map[bool]http.RoundTripper{true: o.Metered(h.keyed), false: o.Metered(h.keyless)}
	}
	h.proxy = httputil.ReverseProxy{
		Rewrite: rewrite, Transport: roundTripper(h.send), ModifyResponse: h.answered, ErrorHandler: h.failed,
		FlushInterval: -1, BufferPool: &buffers{}, ErrorLog: log.New(io.Discard, "", 0), // what it logs is in our answers
	}
	if err := Check(tokens, ledger.Book()); err != nil {
		return nil, err
	}
	h.Update(tokens)
	return h, nil
}

// recorded returns the host of a call as its price book has it, which may have a star in the
// place of a name, and the header of its key. The host is "" for a redirect to another one.
func recorded(req *http.Request) (host, key string) {
	if c := callOf(req.Context()); c != nil && strings.EqualFold(req.URL.Host, c.host) {
		return c.upstream.Listed(c.host), c.upstream.Key.Header
	}
	return "", ""
}

// Segments returns the parts of paths that a price book names.
func Segments(b *book.Book) (all []string) {
	for _, u := range b.Upstreams {
		for _, m := range u.Methods {
			for _, r := range m.Routes {
				for part := range strings.SplitSeq(r.Path, "/") {
					if !strings.Contains(part, "{") {
						all = append(all, part)
					}
				}
			}
		}
	}
	return all
}

var errNoKey = errors.New("the proxy has no key for it")

// WithoutKey returns which upstreams want a key from the proxy and have none. Keys are named
// by the upstream, or by the upstream and its account.
func WithoutKey(costs *quota.Book, keys, upstreams []string) (missing []string) {
	for _, name := range upstreams {
		u := costs.Upstreams[name]
		has := func(key string) bool { return key == name || strings.HasPrefix(key, name+"@") }
		if u != nil && u.Key.Header != "" && !u.Key.Pass && !slices.ContainsFunc(keys, has) {
			missing = append(missing, name)
		}
	}
	return missing
}

// Update replaces the tokens, which [Check] has accepted. Open requests finish.
// The limit on wrong tokens becomes that of the ledger's price book.
func (h *Handler) Update(tokens []*access.Token) {
	grants := make(map[string]*access.Grant, len(tokens))
	for _, t := range tokens {
		grants[t.Name()] = t.Grant()
	}
	h.set.Budgets.Update(grants)
	h.tokens.Store(&tokens)
	h.door.LimitGuesses(h.ledger.Book().Families[guard.GuessFamily], addressOf)
}

// Flush waits until the calls whose answers have ended are settled, and until the budgets of
// tokens are up to date.
func (h *Handler) Flush(ctx context.Context) error {
	return errors.Join(h.set.Budgets.Flush(ctx), h.keyed.Flush(ctx), h.keyless.Flush(ctx))
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(r.Context()) // a copy, whose body changes
	w, done := h.crowd.Working(w, r)
	defer done()
	c := &call{request: r}
	if r.Body != nil && r.Body != http.NoBody {
		c.body = &body{ReadCloser: r.Body}
		r.Body = c.body
	}
	err := h.admit(c)
	w = &answer{w}
	if err == nil {
		if err = h.begin(c); err == nil {
			defer h.calls.End(c.token.Name())
		}
	}
	if err != nil {
		h.refuse(w, c, err)
		return
	}
	h.proxy.ServeHTTP(w, r.WithContext(c.context(r.Context())))
	dropTrailers(w.Header())
}

// call is a request that a program makes, and what it may do.
type call struct {
	request *http.Request
	token   *access.Token
	target
	labels Labels
	budget *meter.Budget
	body   *body // nil: none
	out    outgoing

	format string // of errors, if it went to another upstream: that of its own

	mu      sync.Mutex
	secrets []string // the keys that were read for it
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// context returns a context that says for whom the call is made.
func (c *call) context(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, callKey{}, c)
	caller := meter.CallerOf(ctx)
	caller.Job, caller.Region, caller.Class = c.token.Job(c.labels.Job), c.labels.Region, c.labels.Class
	caller.Account = c.account() // that which the token was checked for, whatever is left of the headers
	caller.Spill = c.spills
	if caller.Match = &c.match; c.budget != nil {
		caller.Budget = c.budget
	}
	return meter.WithCaller(ctx, caller)
}

// admit fills in a call, or returns why it is not made.
func (h *Handler) admit(c *call) (err error) {
	if err := h.checkSite(c.request); err != nil {
		if err == error(errForeignPage) { //nolint:errorlint // checkSite returns it as it is
			h.set.Metrics.RequestRefused(metrics.CrossSite)
		}
		return err
	}
	found := c.find(h.ledger.Book())
	if c.token = h.present(c); c.token == nil {
		return h.guess(c)
	}
	if found == error(errNoUpstream) { //nolint:errorlint // find returns it as it is
		found = c.sole()
	}
	if found != nil {
		return found
	}
	if c.labels, err = readLabels(c.request.Header, h.set.Defaults); err != nil {
		return err
	}
	if own := c.token.Grant().Accounts; c.labels.Account == "" && c.host == "" && len(own) == 1 && own[0] != access.AnyAccount && c.upstream.AccountFrom.Header == "" {
		c.labels.Account = own[0] // a token of one account calls that one
	}
	if err := c.place(); err != nil {
		return err
	}
	if err := c.mayBe(); err != nil {
		return err
	}
	if c.keyed && c.upstream.Key.Header != "" && !h.keysOf[c.upstream.Name] { // a new price book wants it
		return &meter.CredentialError{Upstream: c.upstream.Name, Account: c.account(), Reason: "the proxy was started without it; restart the proxy"}
	}
	if err := c.single(); err != nil {
		return err
	}
	if c.resumes() && !h.begun(c) {
		return errNoUpload
	}
	c.budget = h.set.Budgets.begin(c)
	return nil
}

// send makes a call through the transport that meters.
func (h *Handler) send(req *http.Request) (*http.Response, error) {
	c := callOf(req.Context())
	ctx, done, crowded := h.wait(req.Context(), c)
	defer done()
	resp, err := h.by[c.keyed].RoundTrip(req.WithContext(ctx))
	var refused *quota.RefusedError
	if crowded && errors.As(err, &refused) && refused.RetryAfter <= c.labels.Wait {
		h.set.Metrics.RequestRefused(metrics.Waiting)
		err = &crowdedError{err}
	}
	return resp, err
}

// spills reports whether the token may make the call at another upstream. If it goes there, that is its target.
func (c *call) spills(req *http.Request, m *book.Match, goes bool) bool {
	to := &call{request: c.request, token: c.token, labels: c.labels}
	to.target = target{c.costs, m.Upstream, m.Upstream.Name, req.URL.Host, req.URL.EscapedPath(), *m, true}
	to.labels.Account = meter.CallerOf(req.Context()).Account
	if m.Upstream.Key.Pass || c.upgrades() && !m.Method.Upgrade || to.mayBe() != nil || to.single() != nil {
		return false
	}
	if goes {
		c.format = cmp.Or(c.upstream.ErrorFormat, "problem")
		c.target, c.labels.Account = to.target, to.labels.Account
	}
	return true
}

// noted is a source of keys that notes in the call which key it got.
func noted(source meter.KeySource) meter.KeySource {
	if source == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		key, err := source(ctx)
		if c := callOf(ctx); c != nil {
			c.mu.Lock()
			c.secrets = append(c.secrets, key)
			c.mu.Unlock()
		}
		return key, err
	}
}

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// buffers are for copying bodies.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, _ := b.pool.Get().(*[]byte); buffer != nil {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }

// NewTransport returns a transport for many calls to few hosts.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = DefaultConnections, DefaultConnections // one upstream may have all calls
	t.IdleConnTimeout = time.Minute
	return t
}

func observes(u *book.Upstream) bool { return u.Mode == book.Observe }
