package book

import (
	"fmt"
	"slices"
)

// accounts reads who may spend, and which of them have limits of their own.
func (r *reader) accounts(u *Upstream, t *tree) {
	pools := t.get("pools")
	for _, e := range r.named(t.get("accounts"), "accounts", narrowName) {
		u.listed = true
		u.Accounts = append(u.Accounts, e.key)
		if !r.sound(e.value, "account", fmt.Sprintf("account %q", e.key)) {
			continue
		}
		for _, p := range r.named(e.value.get("pools"), "pools of account "+e.key, narrowName) {
			label := fmt.Sprintf("pool %q of account %q", p.key, e.key)
			a := u.Pools[p.key]
			switch {
			case pools.get(p.key) == nil:
				r.fault(p.at, "%s does not exist%s", label, orMean(p.key, pools.keys(), "add it to pools, or change"+knownPools(pools)))
			case r.sound(p.value, "account pool", label) && a != nil:
				r.accountPool(a, e.key, p, pools.get(p.key), label)
			}
		}
	}
	if !u.listed {
		u.Accounts = []string{DefaultAccount}
	}
	slices.Sort(u.Accounts)
}

// accountPool reads the limits that an account has of a pool.
func (r *reader) accountPool(a *Pool, account string, e entry, pool *tree, label string) {
	own, ok := r.grant(e.value)
	if !ok {
		return
	}
	l := windowList{own: a.own}
	for i, w := range a.Windows {
		item := pool.get("windows").items[i]
		l.specs, l.at, l.trees = append(l.specs, w.Spec), append(l.at, item.at), append(l.trees, item)
	}
	if !l.takes() {
		r.fault(e.at, "%s changes nothing: every window of the pool has a quota of its own", label)
		return
	}
	g := a.grant
	if own.hasQuota {
		g.quota, g.hasQuota = own.quota, true
	}
	if own.hasHeadroom {
		g.headroom, g.hasHeadroom = own.headroom, true
	}
	if w, sound := r.limits(&l, g, label, e.value, pool); sound {
		a.Accounts[account], a.grants[account] = w, g
	}
}

func (u *Upstream) accountTree(name string) *tree {
	t, pools := &tree{kind: isMapping, flow: true}, &tree{kind: isMapping, flow: true}
	for _, pool := range sorted(u.Pools) {
		if g, ok := u.Pools[pool].grants[name]; ok {
			g.hasHeadroom = true
			p := g.tree()
			p.flow = true
			pools.add(pool, p)
		}
	}
	t.addFull("pools", pools)
	return t
}
