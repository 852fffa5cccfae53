package book

import (
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
}

// Suggest returns the method whose name is most like a misspelt one, or "".
func (u *Upstream) Suggest(method string) string {
	return nearest(method, slices.Collect(maps.Keys(u.Methods)))
}

// APIKey is how a call over HTTP says whose it is.
type APIKey struct {
	Header string // that carries the key; "" if the book does not say
	Query  string // the parameter that would too, and that shows the key to whoever sees the URL
}

// upstream makes one upstream and the routes of its methods.
func (r *reader) upstream(name string, d *upstreamYAML) (*Upstream, *routeTable) {
	u := &Upstream{
		Name: name, Hosts: d.Hosts, Unpriced: d.Unpriced, Key: APIKey(d.APIKey), Resumable: d.Resumable,
		Classes: map[string]Class{}, Pools: map[string]*Pool{}, Methods: map[string]*Method{},
	}
	routes := &routeTable{upstream: u}
	if !r.readable(d) {
		return u, routes
	}
	u.Refusals = r.refusals(d.Refusals)
	for _, pool := range r.names(&d.Pools) {
		if p := r.pool(pool, d.Pools[pool]); p != nil {
			u.Pools[pool] = p
		}
	}
	r.accounts(u, d)
	for _, class := range r.names(&d.Classes) {
		u.Classes[class] = r.class(class, d.Classes[class])
		r.leavesSome(u, class, d)
	}
	given := map[*segment]*string{}
	for _, method := range r.names(&d.Methods) {
		m := r.method(method, d.Methods[method], d)
		u.Methods[method] = m
		r.payable(u, m, d.Methods[method])
		r.routes(m, d.Methods[method], routes, given)
	}
	if len(given) > 0 && len(u.Hosts) == 0 {
		r.fault(r.missing(&d.Hosts, d), "upstream %q has routes but no hosts; name the hosts whose requests they are", name)
	}
	r.stillCharged(d)
	return u, routes
}
