package book

import (
	"fmt"

	"github.com/headroom-quota/headroom/quota/window"
)

// Method is one call of an upstream, and its price.
type Method struct {
	Name    string
	Routes  []Route
	Charges map[string]int64 // units by pool; 0 is free of charge
	Outage  Policy
	Source  string // where the price comes from
}

// method reads one method and its price; pools is what it may charge.
func (r *reader) method(e entry, pools *tree) *Method {
	m := &Method{Name: e.key, Charges: map[string]int64{}, Outage: Refuse}
	t, label := e.value, fmt.Sprintf("method %q", e.key)
	if !r.sound(t, "method", label) {
		return m
	}
	m.Outage = r.policy(t.get("outage"), "outage", Refuse)
	if s := t.get("source"); s != nil && r.is(s, isText, "source") {
		if why := plainText(256)(s.text); why != "" {
			r.fault(s.at, "source %s", why)
		}
		m.Source = s.text
	}
	charge, cost, pool := t.get("charge"), t.get("cost"), t.get("pool")
	switch {
	case charge != nil && (cost != nil || pool != nil):
		r.fault(charge.at, "%s has both charge and pool or cost; write pool and cost for one pool, charge for several", label)
	case charge != nil:
		if n := len(charge.entries); r.is(charge, isMapping, "charge") && (n == 0 || n > MaxCharges) {
			r.fault(charge.at, "%s must charge 1 to %d pools, has %d", label, MaxCharges, n)
		}
		for _, c := range charge.entries {
			r.charge(m, c.key, c.at, c.value, pools)
		}
	case pool == nil:
		r.fault(r.missing(t, "pool", e.at), "%s has no pool; name the one it charges:%s", label, knownPools(pools))
	case cost == nil:
		r.fault(r.missing(t, "cost", e.at), "%s has no cost; 0 if it is free of charge", label)
	case r.is(pool, isText, "pool"):
		r.charge(m, pool.text, pool.at, cost, pools)
	}
	return m
}

// charge reads what a method takes of one pool.
func (r *reader) charge(m *Method, pool string, at place, cost, pools *tree) {
	units, ok := r.integer(cost, "cost", 0, window.MaxUnits)
	if ok {
		m.Charges[pool] = units
	}
	if pools.get(pool) != nil {
		return
	}
	if pools != nil {
		if _, removed := pools.gone[pool]; removed {
			return // stillCharged says so once
		}
	}
	r.fault(at, "method %q charges pool %q, which does not exist%s", m.Name, pool,
		orMean(pool, pools.keys(), "add it to pools, or charge"+knownPools(pools)))
}

func knownPools(pools *tree) string {
	if names := pools.keys(); len(names) > 0 {
		return " " + list(names, "or")
	}
	return " one that you add to pools"
}

// payable checks that some account can pay for a method at all. A price that the
// book merely inherited is let be: whoever has a small quota of an API with dear
// methods need not list all that they never call; such a call fails as impossible.
func (r *reader) payable(u *Upstream, e entry) {
	for pool, units := range u.Methods[e.key].Charges {
		a := u.Pools[pool]
		if a == nil {
			continue
		}
		var most Window // the tightest of the most generous account
		for _, account := range u.Accounts {
			if w, ok := tightest([]string{account}, a, Class{}); ok && w.Limit(Class{}) > most.Limit(Class{}) {
				most = w
			}
		}
		if units <= most.Limit(Class{}) {
			continue
		}
		cost := e.value.get("cost")
		if cost == nil {
			cost = e.value.get("charge").get(pool)
		}
		if cost.at.in != r.top {
			continue
		}
		r.fault(cost.at,
			"method %q costs %d of pool %q, which is impossible: the limit of window %s is %d; lower the cost, raise the quota or remove the method",
			e.key, units, pool, most.Spec, most.Limit(Class{}))
	}
}

func (m *Method) tree() *tree {
	t := &tree{kind: isMapping, flow: true}
	routes := make([]string, len(m.Routes))
	for i, r := range m.Routes {
		routes[i] = r.String()
	}
	if len(routes) == 1 {
		t.add("route", text(routes[0]))
	} else {
		t.addFull("route", texts(routes))
	}
	charge := &tree{kind: isMapping, flow: true}
	for _, pool := range sorted(m.Charges) {
		charge.add(pool, number(m.Charges[pool]))
	}
	if len(charge.entries) == 1 {
		t.add("pool", text(charge.entries[0].key))
		t.add("cost", charge.entries[0].value)
	} else {
		t.add("charge", charge)
	}
	t.add("outage", text(string(m.Outage)))
	if m.Source != "" {
		t.add("source", text(m.Source))
	}
	return t
}
