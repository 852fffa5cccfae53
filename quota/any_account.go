package quota

import (
	linked "container/list"
	"slices"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota/book"
)

// Accounts that the price book does not list have the prices and limits of the account
// [book.OtherAccounts], on pages of their own. Nothing is kept here for each of them but
// its name, and of names there are at most [book.Upstream.MaxAccounts]: so a caller gains
// nothing by inventing accounts. An account keeps its page until this process has not used
// it for so long that all its units have come back. Then it makes room for another one.
// While all are in use, further ones share the page of book.OtherAccounts.

// places are the accounts that have pages of their own, by upstream.
type places struct {
	now   func() time.Time
	mu    sync.Mutex
	taken map[string]*placed
}

// placed are the accounts of one upstream.
type placed struct {
	used *linked.List // of *place, the one that was used longest ago first
	by   map[string]*linked.Element
	// told are the accounts that events name. Metrics keep a series for each, so an account
	// that came in the place of another one is not among them.
	told map[string]bool
}

// place is an account that has pages of its own.
type place struct {
	account string
	used    time.Time // the last time
}

// of returns the account whose page an account uses. Units count for at most span.
func (p *places) of(u *book.Upstream, account string, span time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken, now := p.taken[u.Name], p.now()
	if taken == nil {
		if p.taken == nil {
			p.taken = map[string]*placed{}
		}
		taken = &placed{linked.New(), map[string]*linked.Element{}, map[string]bool{}}
		p.taken[u.Name] = taken
	}
	if taken.stays(account, now) {
		return account
	}
	if len(taken.by) >= u.MaxAccounts {
		oldest := taken.used.Front()
		idle := oldest.Value.(*place)
		if now.Sub(idle.used) < span {
			return book.OtherAccounts
		}
		taken.used.Remove(oldest)
		delete(taken.by, idle.account)
	}
	taken.by[account] = taken.used.PushBack(&place{account, now})
	if len(taken.told) < u.MaxAccounts {
		taken.told[account] = true
	}
	return account
}

// stay keeps the place of an account that has calls in flight.
func (p *places) stay(upstream, account string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if taken := p.taken[upstream]; taken != nil {
		taken.stays(account, p.now())
	}
}

// stays keeps the place of an account, and reports whether it has one.
func (p *placed) stays(account string, now time.Time) bool {
	at := p.by[account]
	if at != nil {
		at.Value.(*place).used = now
		p.used.MoveToBack(at)
	}
	return at != nil
}

// tells reports whether events name an account.
func (p *places) tells(u *book.Upstream, account string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.taken[u.Name]
	return taken != nil && taken.told[account]
}

// isOther reports whether an account is accepted though the book does not list it.
func (p *prices) isOther(u *book.Upstream, account string) bool {
	return u != nil && u.AnyAccount && !slices.Contains(u.Accounts, account)
}

// listed returns the account of the book whose limits an account has.
func (p *prices) listed(key accountKey) accountKey {
	if p.accounts[key] == nil {
		key.account = book.OtherAccounts
	}
	return key
}

// place returns the account whose page an account uses that the book does not list.
func (p *prices) place(u *book.Upstream, account string) (string, error) {
	if account == "" || !printable(account, maxName) {
		return "", BadInput("%s: account %.40q must be 1 to %d printable bytes", u.Name, account, maxName)
	}
	if account == book.OtherAccounts {
		return account, nil
	}
	return p.places.of(u, account, p.spans[u.Name]), nil
}

// pattern returns what a method costs an account that the book does not list; nil if that
// is not what the call is.
func (p *prices) pattern(c *Call) *price {
	u := p.book.Upstreams[c.Upstream]
	if c.Charges != nil || !p.isOther(u, c.Account) {
		return nil
	}
	of := p.methods[priceKey{c.Upstream, book.OtherAccounts, c.Class, c.Method}]
	if of == nil {
		return nil
	}
	account, err := p.place(u, c.Account)
	if err != nil {
		return &price{err: err}
	}
	made := new(price)
	*made = *of
	made.charges = slices.Clone(of.charges)
	for i := range made.charges {
		made.charges[i].Pool.Account = account
	}
	if of.err != nil && made.charges != nil {
		made.err = p.possible(made.charges, c.Class)
	}
	return made
}

// poolsOfOther is pools for an account that the book does not list.
func (p *prices) poolsOfOther(u *book.Upstream, account, class string) (map[string]*keyed, error) {
	of := p.accounts[accountKey{u.Name, book.OtherAccounts, class}]
	if of == nil {
		return nil, BadInput("%s has no class %.40q; the price book has %s", u.Name, class, names(u.Classes))
	}
	account, err := p.place(u, account)
	if err != nil {
		return nil, err
	}
	pools := make(map[string]*keyed, len(of))
	for name, k := range of {
		own := *k
		own.any.Pool.Account = account
		pools[name] = &own
	}
	return pools, nil
}

// told returns a call as events tell it. Metrics have a series for each account, so an
// account without a page of its own is told as the one whose page it shares.
func (l *Ledger) told(c *Call) Call {
	told := *c
	p := l.prices.Load()
	if u := p.book.Upstreams[c.Upstream]; c.Family == "" && p.isOther(u, c.Account) {
		if told.Account, _ = p.place(u, c.Account); !p.places.tells(u, told.Account) {
			told.Account = book.OtherAccounts
		}
	}
	return told
}
