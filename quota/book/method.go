package book

import (
	"fmt"

	"github.com/headroom-quota/headroom/quota/window"
)

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

// routes reads how a method looks in HTTP.
func (r *reader) routes(e entry, m *Method, table *routeTable, given map[string]place) {
	for _, t := range r.texts(e.value.get("route"), "route") {
		route, why := parseRoute(t.text)
		if why != "" {
			r.fault(t.at, "route %q of method %q %s", t.text, e.key, why)
			continue
		}
		m.Routes = append(m.Routes, route)
		shape := route.shape()
		if first, dup := given[shape]; dup {
			r.fault(r.blame(t.at, first), "route %q of method %q is given twice, the other time at %s; a request can have one price only",
				t.text, e.key, r.other(t.at, first))
			continue
		}
		given[shape] = t.at
		table.add(route, m)
	}
}
