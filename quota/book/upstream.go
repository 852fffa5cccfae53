package book

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book/keys"
)

// Upstream is a metered API.
type Upstream struct {
	Source   string    // where its limits and prices were read
	Verified time.Time // the day on which somebody last compared them; zero if the book has none
	Name     string
	Hosts    []string // requests to these are metered: "host", "*.host", "host/path/"
	// Redirects are other hosts to which the upstream may redirect a call.
	Redirects []string
	// Addresses are the fields of answers in JSON that hold addresses of Hosts.
	Addresses []string
	Mode      Mode
	Unpriced  Policy // how to treat a call that has no price
	Key       APIKey // where a request carries the API key
	// ErrorFormat is the form of the errors that its SDKs understand; "" is "problem".
	ErrorFormat string
	// Env is the environment variable in which its SDKs look for another address, and EnvPath
	// what follows the address there. EnvKey is the one in which they look for the API key.
	Env, EnvPath, EnvKey string
	// Resumable is the query parameter that identifies a resumable upload, or "". A
	// request with this parameter and a Content-Range header is a later chunk of an
	// upload, which was charged when it began.
	Resumable string
	Refusals  []Refusal // the first that matches counts
	Feedback  []Feedback
	Free      []FreeAnswer
	// FailedFree says that the upstream does not charge for answers of 5xx.
	FailedFree bool
	// RequestBuffer is the most bytes of a request's body that are kept to read its price. A
	// longer body is refused. 0 is [DefaultRequestBuffer].
	RequestBuffer int64
	Classes       map[string]Class
	Accounts      []string // sorted; only [DefaultAccount] if the book lists none
	// AnyAccount says that other accounts are accepted, too. A process keeps separate
	// counts of at most MaxAccounts of them. Others share those of [OtherAccounts], until an
	// idle account makes room.
	AnyAccount  bool
	MaxAccounts int
	AccountFrom AccountFrom // where a request names its account
	Pools       map[string]*Pool
	Prices      *PriceList // in money; nil: there are none
	Budgets     []*Pool    // those that its calls spend, by name
	// Spill is where calls go for which it lacks units: the first that has them. SpillMethods are the
	// methods whose calls do so; nil: all that have a route. NoSpill is why its terms forbid that, or "".
	Spill        []Spill
	SpillMethods []string
	NoSpill      string
	Methods      map[string]*Method
	Default      map[string]*Method // the price of calls without a method, by verb; "*" is any other

	routes *routeTable
}

// Mode says what to do with calls that have no units left.
type Mode string

// The two modes; the zero value means [Enforce].
const (
	Enforce Mode = "enforce" // refuse them
	Observe Mode = "observe" // count them, and let them through
)

// AccountFrom tells where a request names its account. At most one field is set.
type AccountFrom struct {
	Host   int    // a label of the host; 1 is the first
	Header string // a header
}

// Find returns the method of a request to the upstream, by its verb and its escaped path,
// whatever its host. It returns nil if the call has no price. See [Book.Match].
func (u *Upstream) Find(verb, path string) *Method {
	if u.routes == nil {
		return nil
	}
	return u.routes.lookup(verb, path).method
}

// MayRedirect reports whether the upstream may redirect calls to a host.
func (u *Upstream) MayRedirect(host string) bool {
	host, _ = splitPort(strings.ToLower(host))
	return slices.ContainsFunc(u.Redirects, func(to string) bool { return isOf(host, to) })
}

// Suggest returns the name of the method that is most like a misspelt name, or "".
func (u *Upstream) Suggest(method string) string {
	return strictyaml.Nearest(method, slices.Collect(maps.Keys(u.Methods)))
}

// SuggestHost returns the listed host that a misspelt one was probably meant to be, or "".
func (b *Book) SuggestHost(host string) string {
	const most = 2 // letters that differ
	if b == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(b.Upstreams)) {
		for _, entry := range b.Upstreams[name].Hosts {
			listed, _, _ := strings.Cut(entry, "/")
			like, meant := host, listed
			if rest, wild := strings.CutPrefix(listed, "*."); wild {
				_, like, _ = strings.Cut(host, ".")
				meant = rest
			}
			if d := strictyaml.Distance(like, meant); d > 0 && d <= most && len(meant) > 2*most {
				return listed
			}
		}
	}
	return ""
}

// APIKey tells where a request carries the API key.
type APIKey struct {
	Header string // the header that carries the key; "" if the book has none
	Query  string // the query parameter that could carry it, and would show it in URLs
	Pass   bool   // a proxy passes on the key of the program
}

// DefaultRequestBuffer is the RequestBuffer of an upstream for which the book has none.
const DefaultRequestBuffer = 8 << 20

// FreeAnswer is an answer that costs nothing.
type FreeAnswer struct {
	Condition
	Pools []string // in which it costs nothing; nil: in all
}

func (r *reader) free(all []keys.FreeAnswer, u *keys.Upstream) (free []FreeAnswer) {
	for i := range all {
		d := &all[i]
		if !r.sound(d) {
			continue
		}
		if len(d.Status) == 0 && d.Header.Name == "" {
			r.fault(r.place(d), "every answer would be free; write a condition, as in {status: 304}")
		}
		for i := range d.Pools {
			if d.Pools[i] != Money {
				r.hasPool(&d.Pools[i], d.Pools[i], "a free answer", u)
			}
		}
		free = append(free, FreeAnswer{Condition{d.Status, d.Header.Name, d.Header.Value}, d.Pools})
	}
	return free
}

func (r *reader) upstream(name string, d *keys.Upstream) *Upstream {
	u := &Upstream{
		Name: name, Source: d.Source, Hosts: d.Hosts, Redirects: d.Redirects, Addresses: d.Addresses, Mode: Mode(d.Mode), Unpriced: Policy(d.Unpriced),
		Key: APIKey(d.APIKey), ErrorFormat: d.ErrorFormat, Env: d.Env, EnvPath: d.EnvPath, EnvKey: d.EnvKey, Resumable: d.Resumable,
		AccountFrom: AccountFrom{int(d.Account.Host), d.Account.Header}, Classes: map[string]Class{}, Pools: map[string]*Pool{}, Methods: map[string]*Method{},
	}
	u.Verified, _ = time.Parse(time.DateOnly, d.Verified) // badDate has checked it
	u.routes = &routeTable{upstream: u, literal: map[string]*segment{}, defaults: map[string]*Method{}}
	if !r.readable(d) {
		return u
	}
	u.Refusals = r.refusals(d.Refusals, d)
	u.RequestBuffer, u.FailedFree, u.Free = d.RequestBuffer, d.Failed == "free", r.free(d.Free, d)
	pools := r.names(&d.Pools)
	for _, pool := range pools {
		for i := range d.Pools[pool].By {
			if by := &d.Pools[pool].By[i]; by.Header != "" && strings.EqualFold(by.Header, d.APIKey.Header) || by.Query != "" && by.Query == d.APIKey.Query {
				r.fault(r.place(by), "by of pool %q reads the API key, which would then be stored and shown; name what stands for it, such as an account", pool)
			}
		}
		if p := r.pool(pool, d.Pools[pool], pools); p != nil {
			u.Pools[pool] = p
		}
	}
	r.accounts(u, d)
	shares := int64(0)
	for _, class := range r.names(&d.Classes) {
		c := r.class(class, d.Classes[class])
		u.Classes[class] = c
		r.leavesSome(u, class, d)
		if shares += c.Share; shares > 100 && shares-c.Share <= 100 {
			r.fault(r.place(&d.Classes[class].Share), "the shares of the classes of %q are more than 100%% with that of %q; lower one", name, class)
		}
	}
	u.Prices = r.prices(d.Prices)
	routes := false
	for _, method := range r.names(&d.Methods) {
		m := r.method(method, d.Methods[method], d)
		u.Methods[method], m.Bill = m, r.bill(d.Methods[method].Bill, u, d)
		r.payable(u, m, d.Methods[method])
		r.routes(m, d.Methods[method], u.routes)
		routes = routes || m.Routes != nil
	}
	for _, verb := range r.names(&d.Default) {
		m := r.method(defaultName(verb), d.Default[verb], d)
		m.Bill = r.bill(d.Default[verb].Bill, u, d)
		r.payable(u, m, d.Default[verb])
		if u.Default == nil {
			u.Default = u.routes.defaults
		}
		u.Default[verb] = m
	}
	if (routes || u.Default != nil) && len(u.Hosts) == 0 {
		r.fault(r.missing(&d.Hosts, d), "upstream %q has routes but no hosts; name the hosts whose requests they are", name)
	}
	r.stillCharged(d)
	u.Feedback = r.feedback(d.Feedback, u, d)
	return u
}

// defaultName is the name of the method that stands for calls without one: what the
// spend shows.
func defaultName(verb string) string { return verb + " default" }
