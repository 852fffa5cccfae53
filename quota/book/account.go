package book

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/quota/book/keys"
)

// OtherAccounts is the account that those share for which there is no place.
const OtherAccounts = anyName

const (
	// anyName stands for every account or verb that is not listed.
	anyName = "*"
	// defaultMaxAccounts is the number of accounts that need not be listed.
	defaultMaxAccounts = 10_000
)

// accountName accepts the names of accounts that a book can list.
func accountName(s string) string {
	if s == anyName {
		return ""
	}
	return narrowName(s)
}

// kinds are the accounts that may have limits of their own.
func (u *Upstream) kinds() []string {
	if u.AnyAccount {
		return append(slices.Clone(u.Accounts), anyName)
	}
	return u.Accounts
}

// accounts makes the accounts of an upstream, and the limits that some have.
func (r *reader) accounts(u *Upstream, d *keys.Upstream) {
	for _, account := range r.names(&d.Accounts) {
		if account == anyName {
			u.AnyAccount, u.MaxAccounts = true, int(cmp.Or(d.MaxAccounts, defaultMaxAccounts))
		} else {
			u.Accounts = append(u.Accounts, account)
		}
		own := d.Accounts[account]
		for _, pool := range r.names(&own.Pools) {
			label := fmt.Sprintf("pool %q of account %q", pool, account)
			of, p := d.Pools[pool], own.Pools[pool]
			switch {
			case of == nil:
				known := r.names(&d.Pools)
				r.fault(r.found[p].At, "%s does not exist%s", label, orMean(pool, known, "add it to pools, or change"+knownPools(known)))
			case r.sound(p) && u.Pools[pool] != nil:
				r.accountPool(u.Pools[pool], account, p, of, label)
			}
		}
	}
	if u.Accounts == nil {
		u.Accounts = []string{DefaultAccount}
	}
	slices.Sort(u.Accounts)
	if r.given(&d.MaxAccounts) && !u.AnyAccount {
		r.fault(r.place(&d.MaxAccounts), "max_accounts changes nothing without accounts: any")
	}
	for i := range d.Hosts {
		host, _, _ := strings.Cut(d.Hosts[i], "/")
		if r.sound(&d.Hosts[i], &d.Account) && int(d.Account.Host) > strings.Count(host, ".")+1 {
			r.fault(r.place(&d.Account.Host), "host %q has no label %d that could name an account", host, d.Account.Host)
		}
	}
}

func (r *reader) accountPool(p *Pool, account string, d *keys.AccountPool, of *keys.Pool, label string) {
	if !takes(of.Windows) {
		r.fault(r.found[d].At, "%s changes nothing: every window of the pool has a quota of its own", label)
		return
	}
	headroom := valueOf(cmp.Or(d.Headroom, of.Headroom))
	d.Quota, d.Headroom = cmp.Or(d.Quota, valueOf(of.Quota.Units)), &headroom
	if w, ok := r.limits(p.Windows, of.Windows, d.Quota, headroom, label, &d.Headroom, &d.Quota, &of.Headroom, &of.Quota); ok {
		p.Accounts[account] = w
	}
}
