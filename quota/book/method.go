package book

import (
	"cmp"

	"github.com/headroom-quota/headroom/quota/book/keys"
	"github.com/headroom-quota/headroom/quota/window"
)

// Method is one call of an upstream, and its price.
type Method struct {
	Name   string
	Routes []Route
	// Charges are the units by pool; 0 is free of charge. For a pool in Prices they are
	// what is known without the request.
	Charges map[string]int64
	Prices  map[string]*Price // of pools whose price depends on the request or the answer
	Bill    *Bill             // in money; nil: the book has none
	Outage  Policy
	Source  string // where the price comes from
	Upgrade bool   // the call may become a WebSocket
}

// Highest returns the highest price of the method on a pool: with each source at its max. A
// source without one counts as what is known without the request.
func (m *Method) Highest(pool string) int64 {
	p := m.Prices[pool]
	if p == nil {
		return m.Charges[pool]
	}
	return max(m.Charges[pool], highest(p.Estimate), highest(p.Actual))
}

// highest returns the sum of the highest values of sources, or 0 if one has no bound.
func highest(sources []Source) (sum int64) {
	for i := range sources {
		switch s := &sources[i]; {
		case s.Fixed():
			sum += s.Number
		case s.Max < window.MaxUnits:
			sum += s.Max
		default:
			return 0
		}
	}
	return min(sum, window.MaxUnits)
}

func (r *reader) method(name string, d *keys.Method, u *keys.Upstream) *Method {
	m := &Method{Name: name, Charges: map[string]int64{}, Outage: Policy(d.Outage), Source: d.Source, Upgrade: d.Upgrade}
	if !r.readable(d) {
		return m
	}
	switch several, one := r.given(&d.Charge), r.given(&d.Pool); {
	case several && (one || d.Cost != nil):
		r.fault(r.place(&d.Charge), "method %q has both charge and pool or cost; write pool and cost for one pool, charge for several", name)
	case several:
		for _, e := range r.written(&d.Charge).Entries {
			r.charge(m, e.Key, d.Charge[e.Key])
			r.charges(m, e.Key, e.At, u)
		}
	case !one:
		r.fault(r.missing(&d.Pool, d), "method %q has no pool; name the one it charges:%s", name, knownPools(r.names(&u.Pools)))
	case d.Cost == nil:
		r.fault(r.missing(&d.Cost, d), "method %q has no cost; 0 if it is free of charge", name)
	case r.sound(&d.Pool):
		r.charge(m, d.Pool, d.Cost)
		r.charges(m, d.Pool, r.place(&d.Pool), u)
	}
	return m
}

func (r *reader) charge(m *Method, pool string, d *keys.Price) {
	units, p := r.price(d)
	m.Charges[pool] = units
	if p == nil {
		return
	}
	if m.Prices == nil {
		m.Prices = map[string]*Price{}
	}
	m.Prices[pool] = p
}

// charges checks that a pool that a method charges exists.
func (r *reader) charges(m *Method, pool string, at place, u *keys.Upstream) {
	if u.Pools[pool] != nil {
		return
	}
	pools := r.written(&u.Pools)
	if pools != nil {
		if _, removed := pools.Gone[pool]; removed {
			return // stillCharged says so once
		}
	}
	r.fault(at, "method %q charges pool %q, which does not exist%s", m.Name, pool,
		orMean(pool, pools.Keys(), "add it to pools, or charge"+knownPools(pools.Keys())))
}

func knownPools(names []string) string {
	return " " + cmp.Or(list(names, "or"), "one that you add to pools")
}

// payable checks that some account can pay for a method at all. It lets a price be
// that the book merely inherited: with a small quota nobody must list all the dear
// methods of an API that they never call. Such a call fails as impossible.
func (r *reader) payable(u *Upstream, m *Method, d *keys.Method) {
	for pool, units := range m.Charges {
		p := u.Pools[pool]
		if p == nil {
			continue
		}
		var most Window // the tightest of the most generous account or key
		for _, windows := range p.sets(u.kinds()) {
			if w, ok := tightest(Class{}, windows); ok && w.Limit(Class{}) > most.Limit(Class{}) {
				most = w
			}
		}
		if units <= most.Limit(Class{}) {
			continue
		}
		if m.Prices[pool] != nil {
			continue // capped at the limit
		}
		cost := r.written(d.Cost)
		if cost == nil {
			cost = r.written(&d.Charge).Value(pool)
		}
		if cost.At.In != r.top {
			continue
		}
		r.fault(cost.At,
			"method %q costs %d of pool %q, which is impossible: the limit of window %s is %d; lower the cost, raise the quota or remove the method",
			m.Name, units, pool, most.Spec, most.Limit(Class{}))
	}
}
