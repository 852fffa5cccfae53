package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

// prices is a price book worked out: for each account, class and method the
// charges as a store takes them.
type prices struct {
	book     *Book
	only     string // the upstream, if there is one only
	methods  map[priceKey]*price
	last     atomic.Pointer[price]             // the last method's, which is mostly the next one's
	accounts map[accountKey]map[string]*Charge // a charge of no units per pool
	keyed    map[accountKey]map[string]*keyed  // of the keyed ones of these
	families map[string]*keyed
	places   *places
	spans    map[string]time.Duration // by upstream with accounts: any, for how long units count at most
	// requested has the pools, by upstream and name, whose upstream counts what was
	// requested.
	requested map[[2]string]bool
	reported  map[[2]string]bool // the pools that answers report about
	// shared has the pools, by upstream and name, whose reported limits all processes share.
	shared map[string]map[string]bool
}

type priceKey struct{ upstream, account, class, method string }

type accountKey struct{ upstream, account, class string }

// price is what a call costs.
type price struct {
	key     priceKey // of a method
	charges []Charge
	keyed   []*keyed // by charge; nil if no pool is keyed
	outage  Policy
	depends map[string]*book.Price // what depends on the call, by pool
	atEnd   []string               // pools whose upstream counts the call when it ends
	slots   bool                   // some of the charges are slots
	err     error                  // it costs more than is ever admitted
}

func newPrices(b *Book) *prices {
	p := &prices{
		book:     b,
		methods:  make(map[priceKey]*price),
		accounts: make(map[accountKey]map[string]*Charge),
		keyed:    make(map[accountKey]map[string]*keyed),
		families: make(map[string]*keyed),
		spans:    make(map[string]time.Duration),

		requested: make(map[[2]string]bool),
		reported:  make(map[[2]string]bool),
		shared:    make(map[string]map[string]bool),
	}
	for _, u := range b.Upstreams {
		p.only = u.Name
		for _, f := range u.Feedback {
			for _, pool := range f.Pool.Pools(u) {
				p.reported[[2]string{u.Name, pool}] = true
				if f.Requested {
					p.requested[[2]string{u.Name, pool}] = true
				}
			}
		}
		p.share(u)
		accounts := u.Accounts
		if u.AnyAccount {
			accounts = append(slices.Clone(accounts), book.OtherAccounts) // the pattern of all others
		}
		for _, account := range accounts {
			p.addClass(u, account, "", book.Class{})
			for name, class := range u.Classes {
				p.addClass(u, account, name, class)
			}
		}
	}
	if len(b.Upstreams) != 1 {
		p.only = ""
	}
	for name, f := range b.Families {
		p.families[name] = newKeyed(Charge{
			Pool:     Pool{Upstream: f.Name, Account: DefaultAccount},
			Windows:  limits(f.Windows, book.Class{}),
			Revision: b.Revision,
		}, f.MaxKeys, f.Overrides, book.Class{})
		p.families[name].family, p.families[name].quotas = f, new(sync.Map)
	}
	return p
}

func (p *prices) addClass(u *book.Upstream, account, name string, class book.Class) {
	pools := make(map[string]*Charge)
	for _, a := range u.Pools {
		windows := a.WindowsFor(account)
		pools[a.Name] = &Charge{
			Pool:     Pool{Upstream: u.Name, Account: account, Name: a.Name},
			Windows:  limits(windows, class),
			Revision: p.book.Revision,
			Zone:     zoneOf(windows),
		}
		pools[a.Name].Lease = leaseOf(a, pools[a.Name].Windows)
	}
	key := accountKey{u.Name, account, name}
	p.accounts[key] = pools
	if account == book.OtherAccounts {
		for _, c := range pools {
			p.spans[u.Name] = max(p.spans[u.Name], span(c.Windows))
		}
	}
	for _, a := range u.Pools {
		if a.By != nil {
			if p.keyed[key] == nil {
				p.keyed[key] = make(map[string]*keyed)
			}
			k := newKeyed(*pools[a.Name], a.MaxKeys, a.Keys, class)
			k.fallback = a.By.DefaultText
			p.keyed[key][a.Name] = k
			if account == book.OtherAccounts {
				for _, windows := range k.own {
					p.spans[u.Name] = max(p.spans[u.Name], span(windows))
				}
			}
		}
	}
	for _, methods := range [...]map[string]*book.Method{u.Methods, u.Default} {
		for _, m := range methods {
			made := &price{key: priceKey{u.Name, account, name, m.Name}, outage: m.Outage, depends: m.Prices, atEnd: atEnd(m)}
			if class.Outage != "" {
				made.outage = class.Outage
			}
			if made.charges, made.err = p.put(pools, m.Charges); made.err == nil {
				made.err = p.finish(made, key)
			}
			p.methods[made.key] = made
		}
	}
}

// limits takes headroom and class off.
func limits(windows []book.Window, class book.Class) []window.Limit {
	all := make([]window.Limit, len(windows))
	for i, w := range windows {
		all[i] = window.NewLimit(w.Spec, max(w.Limit(class), 0))
	}
	return all
}

// leaseOf returns the lease of a pool with these limits.
func leaseOf(p *book.Pool, windows []window.Limit) Lease {
	least := int64(window.MaxUnits)
	for i := range windows {
		least = min(least, windows[i].Limit)
	}
	return Lease{Life: p.Lease.Life, Most: p.Lease.Units(least)}
}

// zoneOf returns the zone by whose days a pool's spend is counted.
func zoneOf(windows []book.Window) *time.Location {
	for _, w := range windows {
		if w.Calendar() {
			return w.Zone
		}
	}
	return time.UTC
}

// put puts units on pools, in the order of their names.
func (p *prices) put(pools map[string]*Charge, units map[string]int64) ([]Charge, error) {
	all := make([]Charge, 0, len(units))
	for _, name := range slices.Sorted(maps.Keys(units)) {
		pool := pools[name]
		if pool == nil {
			return nil, BadInput("there is no pool %.40q; the price book has %s", name, names(pools))
		}
		c := *pool
		c.Units = units[name]
		if c.Units < 0 || c.Units > window.MaxUnits {
			return nil, BadInput("%s: units must be 1 to %d, not %d", c.Pool, window.MaxUnits, c.Units)
		}
		all = append(all, c)
	}
	return all, nil
}

// possible fails loudly for units that could never be granted.
func (p *prices) possible(charges []Charge, class string) error {
	for i := range charges {
		c := &charges[i]
		for j := range c.Windows {
			if w := &c.Windows[j]; c.Units > w.Limit {
				kept := class != "" && p.ordinarily(charges)
				return &ImpossibleError{Pool: c.Pool, Window: w.Name, Class: class, Units: c.Units, Limit: w.Limit, KeptFree: kept}
			}
		}
	}
	return nil
}

// ordinarily reports whether an ordinary caller could ever be granted charges.
func (p *prices) ordinarily(charges []Charge) bool {
	for i := range charges {
		c, ordinary := &charges[i], accountKey{charges[i].Pool.Upstream, charges[i].Pool.Account, ""}
		windows := p.listed(ordinary)[c.Pool.Name].Windows
		if k := p.keyedPools(ordinary)[c.Pool.Name]; k != nil {
			windows = k.charge(c.Pool.Key).Windows
		}
		for _, w := range windows {
			if c.Units > w.Limit {
				return false
			}
		}
	}
	return true
}

// lookup returns what a call costs. In mode observe it costs that even if it is never
// granted, or nothing if it has no price.
func (p *prices) lookup(c *Call) (*price, error) {
	made, err := p.find(c)
	if err != nil {
		return p.overlook(c, made, err)
	}
	return made, nil
}

// find returns what a call costs.
func (p *prices) find(c *Call) (*price, error) {
	if c.Outage != "" && c.Outage != Admit && c.Outage != Refuse {
		return nil, BadInput("outage %.40q is neither refuse nor admit", string(c.Outage))
	}
	if c.Family != "" {
		return p.lookupMember(c, nil)
	}
	if c.Key != "" || c.Units != 0 {
		return nil, BadInput("key and units go with a family; a call of an upstream names a method, or charges by pool")
	}
	if c.Upstream == "" && p.only != "" {
		c.Upstream = p.only
	}
	if c.Account == "" {
		c.Account = DefaultAccount
	}
	if c.Account == book.OtherAccounts {
		return nil, BadInput("the account %s stands for those that are not listed; name one", c.Account)
	}
	key := priceKey{c.Upstream, c.Account, c.Class, c.Method}
	if c.Charges == nil {
		made := p.last.Load()
		if made == nil || made.key != key {
			if made = p.methods[key]; made != nil {
				p.last.Store(made)
			} else {
				made = p.pattern(c)
			}
		}
		if made != nil && made.keyed == nil && c.Keys == nil && c.Estimate == nil { // nearly always
			return made, made.err
		}
		if made != nil {
			return p.tailored(c, made)
		}
	}
	pools, err := p.pools(c.Upstream, c.Account, c.Class)
	if err != nil {
		return nil, err
	}
	if c.Estimate != nil {
		return nil, BadInput("an estimate goes with a method of the price book, which has the pools")
	}
	if c.Charges == nil {
		return p.unpriced(c)
	}
	return p.explicit(c, pools)
}

// explicit is the price of charges that the caller names.
func (p *prices) explicit(c *Call, pools map[string]*Charge) (*price, error) {
	if len(c.Charges) == 0 {
		return nil, BadInput("charges are empty: name a pool of %s", names(pools))
	}
	if u := p.book.Upstreams[c.Upstream]; c.Method != "" && u.Methods[c.Method] == nil {
		hint := "; beside charges it only labels the spend, so leave it out"
		if near := u.Suggest(c.Method); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, BadInput("%s has no method %.80q%s", c.Upstream, c.Method, hint)
	}
	for pool, units := range c.Charges {
		if units == 0 && pools[pool] != nil {
			return nil, BadInput("%s/%s: units must be 1 to %d, not 0", c.Upstream, pool, window.MaxUnits)
		}
	}
	made := &price{outage: p.book.Upstreams[c.Upstream].Classes[c.Class].Outage}
	var err error
	if made.charges, err = p.put(pools, c.Charges); err != nil {
		return nil, err
	}
	made.err = p.finish(made, accountKey{c.Upstream, c.Account, c.Class})
	return p.tailored(c, made)
}

// unpriced is the price of a method that the book does not know.
func (p *prices) unpriced(c *Call) (*price, error) {
	u := p.book.Upstreams[c.Upstream]
	if u.Unpriced == Admit {
		return &price{}, nil
	}
	hint := "add it under methods in costs.yaml"
	if c.Method == "" {
		hint = "name a method, or charges by pool"
	} else if near := u.Suggest(c.Method); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, &UnpricedError{Upstream: u.Name, Method: c.Method, Hint: hint}
}

// pools returns a charge of no units for each pool of an account, as a class
// sees them.
func (p *prices) pools(upstream, account, class string) (map[string]*Charge, error) {
	if pools := p.accounts[accountKey{upstream, account, class}]; pools != nil {
		return pools, nil
	}
	u := p.book.Upstreams[upstream]
	if p.isOther(u, account) {
		return p.poolsOfOther(u, account, class)
	}
	switch {
	case u == nil && upstream == "":
		return nil, BadInput("name an upstream; the price book has %s", names(p.book.Upstreams))
	case u == nil:
		return nil, BadInput("there is no upstream %.40q; the price book has %s", upstream, names(p.book.Upstreams))
	case !slices.Contains(u.Accounts, account):
		return nil, BadInput("%s has no account %.40q; the price book has %s", upstream, account, strings.Join(u.Accounts, ", "))
	}
	return nil, BadInput("%s has no class %.40q; the price book has %s", upstream, class, names(u.Classes))
}

// pool returns a charge of no units for one pool; p is nil if its ledger is.
func (p *prices) pool(pool Pool) (Charge, error) {
	if p == nil {
		return Charge{}, errNotMade
	}
	if pool.Name == "" && pool.Key != "" {
		return Charge{}, BadInput("%s is a family's member, not a pool", pool)
	}
	if pool.Account == "" {
		pool.Account = DefaultAccount
	}
	pools, err := p.pools(pool.Upstream, pool.Account, "")
	if err != nil {
		return Charge{}, err
	}
	if k := p.keyedPools(accountKey{pool.Upstream, pool.Account, ""})[pool.Name]; k != nil {
		return k.keyedPool(pool)
	}
	if c := pools[pool.Name]; c != nil && pool.Key == "" {
		return *c, nil
	} else if c != nil {
		return Charge{}, BadInput("pool %s has no keys", c.Pool)
	}
	return Charge{}, BadInput("%s has no pool %.40q; the price book has %s", pool.Upstream, pool.Name, names(pools))
}

// lookupMember is the price of a call on a family's member. If windows is not nil, they are
// its limits, and it has a place as a key of the price book has.
func (p *prices) lookupMember(c *Call, windows []window.Limit) (*price, error) {
	f := p.families[c.Family]
	switch {
	case f == nil:
		return nil, BadInput("there is no family %.40q; the price book has %s", c.Family, names(p.families))
	case c.Key == "":
		return nil, BadInput("family %s: the key is empty", c.Family)
	case c.Outage == Admit:
		return nil, BadInput("family %s: a family's member cannot be admitted in an outage; nobody would charge it after", c.Family)
	case c.Upstream != "" || c.Method != "" || c.Charges != nil || c.Estimate != nil || c.Keys != nil || c.Class != "":
		return nil, BadInput("family %s: a family has no upstream, method, charges, keys or class", c.Family)
	case c.Units < 0 || c.Units > window.MaxUnits:
		return nil, BadInput("family %s: units must be 1 to %d, not %d", c.Family, window.MaxUnits, c.Units)
	}
	charge := f.charge(pageKey(c.Key))
	charge.Units = max(c.Units, 1)
	if windows != nil {
		charge.Windows, charge.MaxKeys = windows, 0
	}
	made := &struct { // one allocation, as there are many keys
		price
		charge [1]Charge
	}{charge: [1]Charge{charge}}
	made.charges = made.charge[:]
	return &made.price, p.possible(made.charges, "")
}

// names lists the keys of a map for an error.
func names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// checkBook refuses a book that was not made by [book.Parse].
func checkBook(b *Book) error {
	if b == nil || b.Revision < 1 {
		return BadInput("a ledger needs a price book: see book.Parse")
	}
	return nil
}
