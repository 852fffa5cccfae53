package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/internal/places"
	"github.com/headroom-quota/headroom/quota"
)

// Options are what [New] can be told; nil is legal.
type Options struct {
	// Limits hold for each request for which Routes has no others; nil is one, of
	// the family "client" by address. Empty but not nil: such requests pass.
	Limits []Limit

	// Routes have limits of their own instead, by pattern as in [http.ServeMux]:
	// "GET /api/v1/search". The most specific one counts. Empty ones pass. A host in
	// a pattern is compared with what the client says, so it is for no more than that.
	Routes map[string][]Limit

	// TrustedProxies are the addresses of proxies whose word is taken for who the
	// client is; nil: none, and the connection's address counts.
	TrustedProxies []netip.Prefix

	// ProxyHeader is where they say it: X-Forwarded-For, or Forwarded (RFC 7239);
	// "" is X-Forwarded-For. The other one is not read: a proxy that writes one
	// passes the other on as the client wrote it.
	ProxyHeader string

	// IPv6Bits is how much of an IPv6 address is one client; zero is 64.
	IPv6Bits int

	// Outage says what to do while the store is down: admit requests, or refuse them with
	// 503. The default, "", is admit. Faults that only a person can correct refuse
	// requests in any case: a family that the price book no longer has, or a store
	// without families.
	Outage quota.Policy

	// Delay is how long a request may wait until the limits admit it, in place of a 429. Requests
	// of one key are admitted in the order in which they came, while there are places: see Delayed.
	// Zero means no delay. It must end before the server's timeouts for requests and answers.
	Delay time.Duration

	// Delayed bounds how many requests wait at once; zero is 256. A key may have as many as it
	// leaves free for other keys. A request beyond them does not wait.
	Delayed int

	// XRateLimit adds X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (in
	// seconds from now) of the limit with the least left, for clients that know no other
	// headers.
	XRateLimit bool

	// Logger is told when limits are not kept, and when they are again; nil is
	// slog.Default.
	Logger *slog.Logger
}

// Throttle limits requests. It is safe for concurrent use.
type Throttle struct {
	ledger  *quota.Ledger
	routes  *http.ServeMux // of patterns; nil if there are none
	limits  map[string][]Limit
	proxies proxies
	bits    int // of an IPv6 address
	outage  quota.Policy
	delay   time.Duration
	waiting *places.Places[member] // nil if no request waits
	x       bool                   // X-RateLimit-*
	log     *slog.Logger
	told    atomic.Pointer[told]
	down    atomic.Bool // the store could not be reached, when it was last asked
}

// New returns a throttle by the families of the ledger's price book, which may be
// changed later by [quota.Ledger.SetBook]. See [Book] for a ledger to begin with.
func New(l *quota.Ledger, o *Options) (*Throttle, error) {
	if l.Book() == nil {
		return nil, quota.BadInput("a throttle needs a ledger: quota.New(throttle.Book(), memstore.New(nil), nil) is the simplest")
	}
	o = cmp.Or(o, &Options{})
	t := &Throttle{
		ledger: l,
		limits: make(map[string][]Limit),
		bits:   cmp.Or(o.IPv6Bits, 64),
		outage: cmp.Or(o.Outage, quota.Admit),
		delay:  o.Delay,
		x:      o.XRateLimit,
		log:    cmp.Or(o.Logger, slog.Default()),
	}
	if err := t.set(o); err != nil {
		return nil, fmt.Errorf("throttle: %w", err)
	}
	return t, nil
}

// set checks options and fills in their defaults.
func (t *Throttle) set(o *Options) (err error) {
	switch {
	case t.bits < 1 || t.bits > 128:
		return quota.BadInput("IPv6Bits must be 1 to 128, not %d", t.bits)
	case t.outage != quota.Admit && t.outage != quota.Refuse:
		return quota.BadInput("outage %.40q is neither refuse nor admit", string(t.outage))
	case t.delay < 0 || o.Delayed < 0:
		return quota.BadInput("Delay and Delayed must not be negative")
	case t.delay > 0:
		t.waiting = places.New[member](int64(cmp.Or(o.Delayed, 256)))
	}
	if t.proxies, err = newProxies(o.TrustedProxies, o.ProxyHeader); err != nil {
		return err
	}
	limits := o.Limits
	if limits == nil {
		limits = []Limit{{}}
	}
	t.limits[""] = complete(limits)
	if len(o.Routes) > 0 {
		t.routes = http.NewServeMux()
	}
	for pattern, limits := range o.Routes {
		if err := register(t.routes, pattern); err != nil {
			return ofRoute(pattern, err)
		}
		t.limits[pattern] = complete(limits)
	}
	return t.check(t.ledger.Book())
}

// Check says what is wrong with a price book for this throttle, as a family that it
// does not have: to be asked before [quota.Ledger.SetBook].
func (t *Throttle) Check(book *quota.Book) error {
	if t == nil || t.ledger == nil {
		return errNotMade
	}
	if err := t.check(book); err != nil {
		return fmt.Errorf("throttle: %w", err)
	}
	return nil
}

func (t *Throttle) check(book *quota.Book) error {
	for pattern, limits := range t.limits {
		for i := range limits {
			if err := limits[i].check(book); err != nil {
				return ofRoute(pattern, err)
			}
		}
	}
	return nil
}

func ofRoute(pattern string, err error) error {
	if pattern == "" {
		return err
	}
	return fmt.Errorf("route %q: %w", pattern, err)
}

// register registers a pattern. It returns the panic of the ServeMux as an error.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = quota.BadInput("%v", p)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

var errNotMade = quota.BadInput("this throttle was not made by throttle.New")

// Handler returns a handler that asks next for what is admitted. Around a mux it
// also limits what the mux does not know.
func (t *Throttle) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t == nil || t.ledger == nil { // it has no limits, so it must refuse
			http.Error(w, errNotMade.Error(), http.StatusInternalServerError)
			return
		}
		if t.admit(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// admit reserves units of each limit of a request. If one refuses, it answers the request.
func (t *Throttle) admit(w http.ResponseWriter, r *http.Request) bool {
	q := question{Request: r, throttle: t}
	limits := t.limitsFor(&q)
	if len(limits) == 0 {
		return true
	}
	told, a := t.policies(), answer{header: w.Header(), x: t.x}
	began := quota.SystemClock{}.Now()
	for i := range limits {
		l := &limits[i]
		key := q.key(l.By)
		policy := told.policy(l.Family, key)
		granted, err := t.take(r.Context(), quota.Call{Family: l.Family, Key: key, Units: l.Units}, began)
		refused, no := errors.AsType[*quota.RefusedError](err)
		switch {
		case err == nil:
			t.seen()
			a.add(policy, &granted.Verdict)
		case no:
			t.seen()
			a.add(policy, &refused.Verdict)
			a.refuse(w, policy, &refused.Verdict)
			return false
		case t.unseen(r, err):
			a.add(policy, nil)
		default:
			a.add(policy, nil)
			a.unavailable(w)
			return false
		}
	}
	a.write()
	return true
}

// member is a key of a family.
type member struct{ family, key string }

// take takes the units of a request that came at some time. It waits for them, if the throttle
// delays requests, they come back in time, and there is a place to wait.
func (t *Throttle) take(ctx context.Context, c quota.Call, began time.Time) (*quota.Reservation, error) {
	of := member{c.Family, c.Key}
	if t.waiting == nil || !t.waiting.Take(of, 1, false) {
		return t.ledger.Reserve(ctx, c)
	}
	defer t.waiting.Give(of, 1)
	return t.ledger.Wait(ctx, c, t.delay-quota.SystemClock{}.Now().Sub(began))
}

// limitsFor returns the limits of a request, and notes its route.
func (t *Throttle) limitsFor(q *question) []Limit {
	if t.routes != nil {
		if _, pattern := t.routes.Handler(q.Request); pattern != "" {
			if limits, ok := t.limits[pattern]; ok {
				q.route = pattern
				return limits
			}
		}
	}
	return t.limits[""]
}

// unseen decides on a request that the ledger could not decide on.
func (t *Throttle) unseen(r *http.Request, err error) bool {
	if r.Context().Err() != nil {
		return false // a cancelled request is not admitted
	}
	if !t.down.Swap(true) {
		why := err
		if outage, ok := errors.AsType[*quota.OutageError](err); ok && outage.Err != nil {
			why = outage.Err // this error does not name the client's key
		}
		t.log.Error("limits per client are not kept", "outage", t.outage, "error", why)
	}
	return t.outage == quota.Admit && !errors.Is(err, quota.ErrBadInput)
}

// seen notes that the ledger has decided on a request.
func (t *Throttle) seen() {
	if t.down.Load() && t.down.Swap(false) {
		t.log.Info("limits per client are kept again")
	}
}
