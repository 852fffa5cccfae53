package quota

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/pace"
	"github.com/headroom-quota/headroom/quota/window"
)

// prices is a price book worked out: for each account, class and method the
// charges as a store takes them.
type prices struct {
	book     *Book
	only     string // the upstream, if there is one only
	methods  map[priceKey]*price
	last     atomic.Pointer[price]            // the last method's, which is mostly the next one's
	accounts map[accountKey]map[string]*keyed // by pool
	families map[string]*keyed
	places   *places
	spans    map[string]time.Duration // by upstream with accounts: any, for how long units count at most
	facts    map[[2]string]*facts     // of the pools, by upstream and name
	learns   bool                     // there are pools whose limits are learned
	shared   map[string]sharedLimits  // of upstreams with pools that take limits which all processes share
}

// facts are what a price book says of a pool beside its limits.
type facts struct {
	requested, reported bool         // its upstream counts what was requested; answers report about it
	shared              bool         // all processes share the limit that is reported about it
	learned             *pace.Bounds // nil: its limit is not learned
	dearest             int64        // what its dearest method takes
	highest             int64        // the highest price of a method
	factor              int64        // settle_factor
}

// noFacts are those of a pool that the price book does not have.
var noFacts = &facts{factor: book.SettleFactor}

// of returns the facts of a pool.
func (p *prices) of(upstream, pool string) *facts {
	return cmp.Or(p.facts[[2]string{upstream, pool}], noFacts)
}

// note notes the facts of the pools of an upstream.
func (p *prices) note(u *book.Upstream) {
	for _, pool := range u.Pools {
		f := &facts{factor: pool.SettleFactor}
		f.shared = u.Name == book.Budgets || pool.LearnLimit && pool.Metric != "" || reportsLimit(u, pool.Name)
		if l := pool.Learned; l != nil {
			f.learned, p.learns = &pace.Bounds{From: float64(l.From), To: float64(l.To), Obey: l.Obey}, true
		}
		if f.learned == nil {
			p.shared[u.Name] = p.limitsOf(u.Name)
		}
		p.facts[[2]string{u.Name, pool.Name}] = f
	}
	of := func(pool string) *facts { // of one that a book made in Go lacks, nobody asks
		return cmp.Or(p.facts[[2]string{u.Name, pool}], new(facts))
	}
	for _, from := range u.Feedback {
		for _, pool := range from.Pool.Pools(u) {
			f := of(pool)
			f.reported, f.requested = true, f.requested || from.Requested
		}
	}
	for _, methods := range [...]map[string]*book.Method{u.Methods, u.Default} {
		for _, m := range methods {
			for pool, units := range m.Charges {
				f := of(pool)
				f.highest = max(f.highest, m.Highest(pool))
				if m.Prices[pool] != nil {
					units = varies
				}
				f.dearest = max(f.dearest, units)
			}
		}
	}
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
	dearest []int64                // by charge: what another call may have to wait for
	atEnd   string                 // Token.end: pools whose upstream counts the call when it ends
	learns  bool                   // the limits of some of the pools are learned
	held    bool                   // it is that of the calls of a hold
	slots   bool                   // some of the charges are slots
	err     error                  // it costs more than is ever admitted
	adopted []adopted              // limits in charges that are not those of the book
}

func newPrices(b *Book, places *places) *prices {
	p := &prices{
		book:     b,
		methods:  make(map[priceKey]*price),
		accounts: make(map[accountKey]map[string]*keyed),
		families: make(map[string]*keyed),
		places:   places,
		spans:    make(map[string]time.Duration),
		facts:    make(map[[2]string]*facts),
		shared:   make(map[string]sharedLimits),
	}
	for _, u := range b.Upstreams {
		if u.Name != book.Budgets {
			p.only = u.Name
		}
		p.note(u)
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
	if len(b.Metered()) != 1 {
		p.only = ""
	}
	for name, f := range b.Families {
		p.families[name] = newKeyed(Charge{
			Pool:     Pool{Upstream: f.Name, Account: DefaultAccount},
			Windows:  limits(f.Windows, book.Class{}),
			Revision: b.Revision,
		}, f.MaxKeys, f.Overrides, f.Lease, book.Class{})
		p.families[name].family, p.families[name].quotas = f, new(sync.Map)
	}
	return p
}

func (p *prices) addClass(u *book.Upstream, account, name string, class book.Class) {
	pools := make(map[string]*keyed)
	for _, a := range u.Pools {
		windows := a.WindowsFor(account)
		k := &keyed{any: Charge{
			Pool:     Pool{Upstream: u.Name, Account: account, Name: a.Name},
			Windows:  limits(windows, class),
			Revision: p.book.Revision,
			Zone:     book.Zone(windows),
		}}
		if k.any.Lease = leaseOf(a.Lease, k.any.Windows); a.By != nil {
			k = newKeyed(k.any, a.MaxKeys, a.Keys, a.Lease, class)
			k.pool = a
		}
		if pools[a.Name] = k; account == book.OtherAccounts {
			p.spans[u.Name] = max(p.spans[u.Name], window.Span(k.any.Windows))
			for _, windows := range k.own {
				p.spans[u.Name] = max(p.spans[u.Name], window.Span(windows))
			}
		}
	}
	key := accountKey{u.Name, account, name}
	p.accounts[key] = pools
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

// leaseOf returns the lease of a page with these limits.
func leaseOf(l book.Lease, windows []window.Limit) Lease {
	least := int64(window.MaxUnits)
	for i := range windows {
		least = min(least, windows[i].Limit)
	}
	return Lease{Life: l.Life, Most: l.Units(least)}
}

// put puts units on pools, in the order of their names.
func (p *prices) put(pools map[string]*keyed, units map[string]int64) ([]Charge, error) {
	all := make([]Charge, 0, len(units))
	for _, name := range slices.Sorted(maps.Keys(units)) {
		pool := pools[name]
		if pool == nil {
			return nil, BadInput("there is no pool %.40q; the price book has %s", name, names(pools))
		}
		c := pool.any
		c.Units = units[name]
		if c.Units < 0 || c.Units > window.MaxUnits {
			return nil, BadInput("%s: units must be 1 to %d, not %d", c.Pool, window.MaxUnits, c.Units)
		}
		all = append(all, c)
	}
	return all, nil
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
