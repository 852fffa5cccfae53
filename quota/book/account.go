package book

import (
	"cmp"
	"fmt"
	"slices"
)

// accounts makes the accounts of an upstream, and the limits that some have.
func (r *reader) accounts(u *Upstream, d *upstreamYAML) {
	for _, account := range r.names(&d.Accounts) {
		u.Accounts = append(u.Accounts, account)
		own := d.Accounts[account]
		for _, pool := range r.names(&own.Pools) {
			label := fmt.Sprintf("pool %q of account %q", pool, account)
			of, p := d.Pools[pool], own.Pools[pool]
			switch {
			case of == nil:
				known := r.names(&d.Pools)
				r.fault(r.found[p].at, "%s does not exist%s", label, orMean(pool, known, "add it to pools, or change"+knownPools(known)))
			case r.sound(p) && u.Pools[pool] != nil:
				r.accountPool(u.Pools[pool], account, p, of, label)
			}
		}
	}
	if u.Accounts == nil {
		u.Accounts = []string{DefaultAccount}
	}
	slices.Sort(u.Accounts)
}

// accountPool makes the limits that an account has of a pool.
func (r *reader) accountPool(p *Pool, account string, d *accountPoolYAML, of *poolYAML, label string) {
	if !takes(of.Windows) {
		r.fault(r.found[d].at, "%s changes nothing: every window of the pool has a quota of its own", label)
		return
	}
	headroom := valueOf(cmp.Or(d.Headroom, of.Headroom))
	d.Quota, d.Headroom = cmp.Or(d.Quota, of.Quota), &headroom
	if w, ok := r.limits(p.Windows, of.Windows, d.Quota, headroom, label, &d.Headroom, &d.Quota, &of.Headroom, &of.Quota); ok {
		p.Accounts[account] = w
	}
}
