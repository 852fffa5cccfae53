package throttle

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/headroom-quota/headroom/quota"
)

// DefaultFamily is the family of a [Limit] that names none.
const DefaultFamily = "client"

// Book is a price book for those who have none: the family "client", 60 requests
// a minute by the two-counter estimate, of 100,000 keys at most.
func Book() *quota.Book {
	b, err := quota.ParseBook("throttle.Book", []byte(`
revision: 1
families: {client: {quota: 60, windows: [{per: 1m, algorithm: counter}]}}
`), nil)
	if err != nil {
		panic(err) // it is a constant
	}
	return b
}

// Options are what [New] can be told; nil is legal.
type Options struct {
	// Limits hold for each request for which Routes has no others; nil is one, of
	// the family "client" by address. Empty but not nil: such requests pass.
	Limits []Limit

	// Routes have limits of their own instead, by pattern as in [http.ServeMux]:
	// "GET /api/v1/search". The most specific one counts. Empty ones pass.
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

	// Outage is what to do while the store cannot be reached: admit, or refuse with
	// 503; "" is admit, so that what is there to be read stays readable.
	Outage quota.Policy

	// Logger is told when the store cannot be reached, and when it can again; nil is
	// slog.Default.
	Logger *slog.Logger
}

// Limit is one limit of a route. Several are asked in their order, and all must
// admit; what one before a refusal has counted stays counted.
type Limit struct {
	Family string // of the price book; "" is DefaultFamily
	By     []Part // what the key is made of; nil is Address
	Units  int64  // that a request takes; zero is 1
}

// Throttle limits requests. It is safe for concurrent use.
type Throttle struct {
	ledger  *quota.Ledger
	routes  *http.ServeMux // of patterns; nil if there are none
	limits  map[string][]Limit
	proxies proxies
	bits    int // of an IPv6 address
	outage  quota.Policy
	log     *slog.Logger
	told    atomic.Pointer[told]
	down    atomic.Bool // the store could not be reached, when it was last asked
}

// New returns a throttle by the families of the ledger's price book, which may be
// changed later by [quota.Ledger.SetBook]. See [Book] for a ledger to begin with.
func New(l *quota.Ledger, o *Options) (*Throttle, error) {
	if l == nil {
		return nil, quota.BadInput("a throttle needs a ledger: quota.New(throttle.Book(), memstore.New(nil), nil) is the simplest")
	}
	if o == nil {
		o = &Options{}
	}
	t := &Throttle{ledger: l, limits: make(map[string][]Limit), bits: o.IPv6Bits, outage: o.Outage, log: o.Logger}
	if err := t.set(o); err != nil {
		return nil, fmt.Errorf("throttle: %w", err)
	}
	return t, nil
}

// set checks options and fills in what they leave out.
func (t *Throttle) set(o *Options) (err error) {
	if t.bits == 0 {
		t.bits = 64
	}
	if t.log == nil {
		t.log = slog.Default()
	}
	switch {
	case t.bits < 1 || t.bits > 128:
		return quota.BadInput("IPv6Bits must be 1 to 128, not %d", t.bits)
	case t.outage == "":
		t.outage = quota.Admit
	case t.outage != quota.Admit && t.outage != quota.Refuse:
		return quota.BadInput("outage %.40q is neither refuse nor admit", string(t.outage))
	}
	if t.proxies, err = newProxies(o.TrustedProxies, o.ProxyHeader); err != nil {
		return err
	}
	limits := o.Limits
	if limits == nil {
		limits = []Limit{{}}
	}
	if t.limits[""], err = t.complete(limits); err != nil {
		return err
	}
	if len(o.Routes) > 0 {
		t.routes = http.NewServeMux()
	}
	for pattern, limits := range o.Routes {
		if err := register(t.routes, pattern); err != nil {
			return fmt.Errorf("route %q: %w", pattern, err)
		}
		if t.limits[pattern], err = t.complete(limits); err != nil {
			return fmt.Errorf("route %q: %w", pattern, err)
		}
	}
	return nil
}

// register returns as an error what a ServeMux says in a panic.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = quota.BadInput("%v", p)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// complete checks limits and fills in what they leave out.
func (t *Throttle) complete(limits []Limit) ([]Limit, error) {
	limits = slices.Clone(limits)
	for i := range limits {
		l := &limits[i]
		if l.Family == "" {
			l.Family = DefaultFamily
		}
		if l.By == nil {
			l.By = []Part{Address}
		}
		if err := l.check(t.ledger.Book()); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// check says what is wrong with a limit.
func (l *Limit) check(book *quota.Book) error {
	f := book.Families[l.Family]
	switch {
	case f == nil:
		return quota.BadInput("the price book has no family %.40q; add it under families: %s: {quota: 60, windows: [{per: 1m, algorithm: counter}]}", l.Family, l.Family)
	case len(l.By) == 0:
		return quota.BadInput("a limit of family %s by nothing would be one for all clients together; leave By nil for their address", l.Family)
	case l.Units < 0:
		return quota.BadInput("family %s: units must be 1 or more, not %d", l.Family, l.Units)
	case slices.ContainsFunc(l.By, func(p Part) bool { return p.write == nil }):
		return quota.BadInput("family %s: a part of the key is empty; use Address, Token, Route, Header or Secret", l.Family)
	}
	if err := l.possible(f.Windows); err != nil {
		return err
	}
	for key, windows := range f.Overrides {
		if err := l.possible(windows); err != nil {
			return fmt.Errorf("key %.40q of %w", key, err)
		}
	}
	return nil
}

// possible says that a request would never be admitted.
func (l *Limit) possible(windows []quota.Window) error {
	for _, w := range windows {
		if most := w.Limit(quota.Class{}); max(l.Units, 1) > most {
			return quota.BadInput("family %s: a request of %d units is never admitted, as the limit of %s is %d", l.Family, l.Units, w.Spec, most)
		}
	}
	return nil
}

// Handler returns a handler that asks next for what is admitted. Around a mux it
// also limits what the mux does not know.
func (t *Throttle) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.admit(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// admit asks the limits of a request, and answers one that is refused.
func (t *Throttle) admit(w http.ResponseWriter, r *http.Request) bool {
	q := question{Request: r, throttle: t}
	limits := t.of(&q)
	if len(limits) == 0 {
		return true
	}
	a := answer{header: w.Header(), told: t.policies()}
	for i := range limits {
		l := &limits[i]
		key := q.key(l.By)
		policy := a.told.policy(l.Family, key)
		granted, err := t.ledger.Reserve(r.Context(), quota.Call{Family: l.Family, Key: key, Units: l.Units})
		if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
			t.up()
			a.add(policy, &refused.Verdict)
			a.refuse(w, policy, &refused.Verdict)
			return false
		}
		if err != nil {
			a.add(policy, nil)
			if !t.unseen(r, err) {
				a.unavailable(w)
				return false
			}
			continue
		}
		t.up()
		a.add(policy, &granted.Verdict)
	}
	a.write()
	return true
}

// of returns the limits of a request, and notes its route.
func (t *Throttle) of(q *question) []Limit {
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

// unseen decides on a request of which the ledger cannot tell.
func (t *Throttle) unseen(r *http.Request, err error) bool {
	if r.Context().Err() != nil {
		return false // nobody waits for the answer, and who cancels is not to be admitted for it
	}
	if !t.down.Swap(true) {
		var outage *quota.OutageError
		if errors.As(err, &outage) && outage.Err != nil {
			err = outage.Err // without whose key it was
		}
		t.log.Error("limits per client are not kept", "requests", t.outage, "error", err)
	}
	return t.outage == quota.Admit
}

func (t *Throttle) up() {
	if t.down.Load() && t.down.Swap(false) {
		t.log.Info("limits per client are kept again")
	}
}
