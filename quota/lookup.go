package quota

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/window"
)

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
		c, ordinary := &charges[i], p.listed(accountKey{charges[i].Pool.Upstream, charges[i].Pool.Account, ""})
		for _, w := range p.accounts[ordinary][c.Pool.Name].charge(c.Pool.Key).Windows {
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
	if c.Upstream == book.Budgets {
		return nil, BadInput("%s are spent by the calls of their upstreams; name one of these", book.Budgets)
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
func (p *prices) explicit(c *Call, pools map[string]*keyed) (*price, error) {
	asked := c.Charges.withoutMoney() // see bill
	if len(asked) == 0 {
		return nil, BadInput("charges are empty: name a pool of %s", names(pools))
	}
	if u := p.book.Upstreams[c.Upstream]; c.Method != "" && u.Methods[c.Method] == nil {
		hint := "; beside charges it only labels the spend, so leave it out"
		if near := u.Suggest(c.Method); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, BadInput("%s has no method %.80q%s", c.Upstream, c.Method, hint)
	}
	for pool, units := range asked {
		if units == 0 && pools[pool] != nil {
			return nil, BadInput("%s/%s: units must be 1 to %d, not 0", c.Upstream, pool, window.MaxUnits)
		}
	}
	made := &price{outage: p.book.Upstreams[c.Upstream].Classes[c.Class].Outage}
	var err error
	if made.charges, err = p.put(pools, asked); err != nil {
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
func (p *prices) pools(upstream, account, class string) (map[string]*keyed, error) {
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
	pool.Account = cmp.Or(pool.Account, DefaultAccount)
	pools, err := p.pools(pool.Upstream, pool.Account, "")
	if err != nil {
		return Charge{}, err
	}
	switch k := pools[pool.Name]; {
	case k == nil:
	case k.pool != nil:
		return k.keyedPool(pool)
	case pool.Key == "":
		return k.any, nil
	default:
		return Charge{}, BadInput("pool %s has no keys", k.any.Pool)
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
		f.limit(&charge, windows)
	}
	made := &struct { // one allocation, as there are many keys
		price
		charge [1]Charge
	}{charge: [1]Charge{charge}}
	made.charges = made.charge[:]
	return &made.price, p.possible(made.charges, "")
}
