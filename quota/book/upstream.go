package book

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Upstream is a metered API.
type Upstream struct {
	Source   string    // where its limits and prices were read
	Verified time.Time // the day on which somebody last compared them; zero if the book has none
	Name     string
	Hosts    []string // requests to these are metered
	Unpriced Policy   // how to treat a call that has no price
	Key      APIKey   // where a request carries the API key
	// Resumable is the query parameter that identifies a resumable upload, or "". A
	// request with this parameter and a Content-Range header is a later chunk of an
	// upload, which was charged when it began.
	Resumable string
	Refusals  []Refusal // the first that matches counts
	Feedback  []Feedback
	Free      []Condition // an answer that meets one costs nothing
	// FailedFree says that the upstream does not charge for answers of 5xx.
	FailedFree bool
	// RequestBuffer is the most bytes of a request's body that are kept to read its price.
	RequestBuffer int64
	Classes       map[string]Class
	Accounts      []string // sorted; only [DefaultAccount] if the book lists none
	Pools         map[string]*Pool
	Methods       map[string]*Method
}

// Suggest returns the name of the method that is most like a misspelt name, or "".
func (u *Upstream) Suggest(method string) string {
	return nearest(method, slices.Collect(maps.Keys(u.Methods)))
}

// APIKey tells where a request carries the API key.
type APIKey struct {
	Header string // the header that carries the key; "" if the book has none
	Query  string // the query parameter that could carry it, and would show it in URLs
}

// upstream makes one upstream and the routes of its methods.
func (r *reader) upstream(name string, d *upstreamYAML) (*Upstream, *routeTable) {
	u := &Upstream{
		Name: name, Hosts: d.Hosts, Unpriced: d.Unpriced, Key: APIKey(d.APIKey), Resumable: d.Resumable,
		Classes: map[string]Class{}, Pools: map[string]*Pool{}, Methods: map[string]*Method{},
	}
	u.Source = d.Source
	u.Verified, _ = time.Parse(time.DateOnly, d.Verified)
	routes := &routeTable{upstream: u}
	if !r.readable(d) {
		return u, routes
	}
	u.Refusals = r.refusals(d.Refusals)
	for _, pool := range r.names(&d.Pools) {
		if by := d.Pools[pool].By; by != nil && (by.Header != "" && strings.EqualFold(by.Header, d.APIKey.Header) || by.Query != "" && by.Query == d.APIKey.Query) {
			r.fault(r.place(by), "by of pool %q reads the API key, which would then be stored and shown; name what stands for it, such as an account", pool)
		}
	}
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
