package book

import (
	"fmt"
	"maps"
	"slices"
)

// Upstream is a metered API.
type Upstream struct {
	Name     string
	Hosts    []string // requests to these are metered
	Unpriced Policy   // what to do with a call that has no price
	Key      APIKey   // how a call over HTTP says whose it is
	// Resumable is the query parameter that names an upload under way: a request
	// that has it and a Content-Range goes on with one that was charged when it
	// began. Empty if there are none.
	Resumable string
	Refusals  []Refusal // what the upstream's own no means; the first that matches
	Classes   map[string]Class
	Accounts  []string // those who may spend, sorted; "default" if the book names none
	Pools     map[string]*Pool
	Methods   map[string]*Method

	listed bool // the book lists the accounts
}

// Suggest returns the method whose name is most like a misspelt one, or "".
func (u *Upstream) Suggest(method string) string {
	return nearest(method, slices.Collect(maps.Keys(u.Methods)))
}

// upstream reads one upstream and the routes of its methods.
func (r *reader) upstream(e entry) (*Upstream, *routeTable) {
	u := &Upstream{
		Name: e.key, Unpriced: Refuse,
		Classes: map[string]Class{}, Pools: map[string]*Pool{}, Methods: map[string]*Method{},
	}
	routes := &routeTable{upstream: u}
	if !r.sound(e.value, "upstream", fmt.Sprintf("upstream %q", e.key)) {
		return u, routes
	}
	t := e.value
	for _, h := range r.texts(t.get("hosts"), "hosts") {
		if why := badHost(h.text); why != "" {
			r.fault(h.at, "host %q %s", h.text, why)
		}
		u.Hosts = append(u.Hosts, h.text)
	}
	u.Unpriced = r.policy(t.get("unpriced"), "unpriced", Refuse)
	u.Key = r.apiKey(t.get("api_key"))
	if p := t.get("resumable"); p != nil {
		u.Resumable = r.param(p, "resumable")
	}
	u.Refusals = r.refusals(t.get("refusals"))
	for _, p := range r.named(t.get("pools"), "pools", narrowName) {
		if a := r.pool(p, t.get("pools")); a != nil {
			u.Pools[p.key] = a
		}
	}
	r.accounts(u, t)
	for _, c := range r.named(t.get("classes"), "classes", wideName) {
		u.Classes[c.key] = r.class(c)
		r.leavesSome(u, c, t.get("pools"))
	}
	given := map[string]place{}
	for _, m := range r.named(t.get("methods"), "methods", wideName) {
		method := r.method(m, t.get("pools"))
		u.Methods[m.key] = method
		r.payable(u, m)
		r.routes(m, method, routes, given)
	}
	if len(given) > 0 && len(u.Hosts) == 0 {
		r.fault(r.missing(t, "hosts", e.at), "upstream %q has routes but no hosts; name the hosts whose requests they are", u.Name)
	}
	r.stillCharged(t)
	return u, routes
}

func (u *Upstream) tree() *tree {
	t := &tree{kind: isMapping}
	t.addFull("hosts", texts(u.Hosts))
	t.add("unpriced", text(string(u.Unpriced)))
	t.addFull("api_key", u.Key.tree())
	if u.Resumable != "" {
		t.add("resumable", text(u.Resumable))
	}
	refusals := &tree{kind: isList}
	for i := range u.Refusals {
		refusals.items = append(refusals.items, u.Refusals[i].tree())
	}
	t.addFull("refusals", refusals)
	classes := &tree{kind: isMapping}
	for _, name := range sorted(u.Classes) {
		classes.add(name, u.Classes[name].tree())
	}
	t.addFull("classes", classes)
	accounts := &tree{kind: isMapping}
	for _, name := range u.Accounts {
		if u.listed {
			accounts.add(name, u.accountTree(name))
		}
	}
	t.addFull("accounts", accounts)
	pools := &tree{kind: isMapping}
	for _, name := range sorted(u.Pools) {
		pools.add(name, u.Pools[name].tree())
	}
	t.addFull("pools", pools)
	methods := &tree{kind: isMapping}
	for _, name := range sorted(u.Methods) {
		methods.add(name, u.Methods[name].tree())
	}
	t.addFull("methods", methods)
	return t
}
