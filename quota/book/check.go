package book

import (
	"fmt"
	"math"
	"slices"
)

// Checks of what stands in several parts of a book: a price against the limit
// it is paid from, a class against the pools it leaves free, a pool that is
// gone against the methods that charge it.

// leavesSome checks that a class leaves itself at least a unit of every window.
func (r *reader) leavesSome(u *Upstream, e entry, pools *tree) {
	c := u.Classes[e.key]
	if c.KeepFree == 0 && c.KeepFreePercent == 0 {
		return
	}
	keep := e.value.get("keep_free")
	for _, p := range pools.keys() {
		a := u.Pools[p]
		if a == nil {
			continue
		}
		w, ok := tightest(u.Accounts, a, c)
		if !ok || w.Limit(c) >= 1 {
			continue
		}
		r.fault(r.blame(append([]place{keep.at}, grantPlaces(pools.get(p))...)...),
			"class %q keeps %s free of every window, but window %s of pool %q has a limit of %d: nothing would be left; lower keep_free%s",
			e.key, keep.text, w.Spec, p, w.Limit(Class{}), orPercent(c))
	}
}

func orPercent(c Class) string {
	if c.KeepFreePercent == 0 {
		return " or write it in percent"
	}
	return ""
}

// tightest is the window with the lowest limit for a class, whatever account.
func tightest(accounts []string, a *Pool, c Class) (Window, bool) {
	var tight Window
	limit := int64(math.MaxInt64)
	for _, account := range accounts {
		for _, w := range a.WindowsFor(account) {
			if l := w.Limit(c); l < limit {
				tight, limit = w, l
			}
		}
	}
	return tight, limit < math.MaxInt64
}

// payable checks that some account can pay for a method at all. A price that the
// book merely inherited is let be: whoever has a small quota of an API with dear
// methods need not list all that they never call; such a call fails as impossible.
func (r *reader) payable(u *Upstream, e entry) {
	for pool, units := range u.Methods[e.key].Charges {
		a := u.Pools[pool]
		if a == nil {
			continue
		}
		var most Window // the tightest of the most generous account
		for _, account := range u.Accounts {
			if w, ok := tightest([]string{account}, a, Class{}); ok && w.Limit(Class{}) > most.Limit(Class{}) {
				most = w
			}
		}
		if units <= most.Limit(Class{}) {
			continue
		}
		cost := e.value.get("cost")
		if cost == nil {
			cost = e.value.get("charge").get(pool)
		}
		if cost.at.in != r.top {
			continue
		}
		r.fault(cost.at,
			"method %q costs %d of pool %q, which is impossible: the limit of window %s is %d; lower the cost, raise the quota or remove the method",
			e.key, units, pool, most.Spec, most.Limit(Class{}))
	}
}

// grantPlaces is where the limits of a pool stand.
func grantPlaces(pool *tree) []place {
	var at []place
	for _, key := range []string{"quota", "headroom", "windows"} {
		if v := pool.get(key); v != nil {
			at = append(at, v.at)
		}
	}
	return at
}

// stillCharged reports pools that an overlay removed though methods charge them.
func (r *reader) stillCharged(t *tree) {
	pools := t.get("pools")
	if pools == nil {
		return
	}
	for pool, at := range pools.gone {
		var by []string
		for _, m := range t.members("methods") {
			p := m.value.get("pool")
			if p != nil && p.text == pool || m.value.get("charge").get(pool) != nil {
				by = append(by, m.key)
			}
		}
		slices.Sort(by)
		if n := len(by); n > 3 {
			by = append(by[:3], fmt.Sprintf("%d more", n-3))
		}
		if len(by) > 0 {
			r.fault(at, "pool %q is removed, but still charged by %s; remove them or give them another pool", pool, list(by, "and"))
		}
	}
}
