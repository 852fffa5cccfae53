package book

import (
	"fmt"
	"slices"

	"github.com/headroom-quota/headroom/quota/window"
)

// Pool is an allowance of an upstream. In a ledger each account has a pool of its
// own, which quota.Pool names.
type Pool struct {
	Name     string
	Windows  []Window
	Accounts map[string][]Window // of accounts with limits of their own

	grant  grant            // of the pool itself
	own    []grant          // of each window; zero where it takes the pool's
	grants map[string]grant // of accounts
}

// WindowsFor returns the limits that hold for an account.
func (p *Pool) WindowsFor(account string) []Window {
	if own := p.Accounts[account]; own != nil {
		return own
	}
	return p.Windows
}

// grant is a quota and a headroom as the book gives them.
type grant struct {
	quota, headroom int64
	hasQuota        bool
	hasHeadroom     bool
}

// grant reads quota and headroom.
func (r *reader) grant(t *tree) (g grant, ok bool) {
	ok = true
	if q := t.get("quota"); q != nil {
		g.quota, g.hasQuota = r.integer(q, "quota", 1, window.MaxUnits)
		ok = g.hasQuota
	}
	if h := t.get("headroom"); h != nil {
		g.headroom, g.hasHeadroom = r.integer(h, "headroom", 0, window.MaxUnits)
		ok = ok && g.hasHeadroom
	}
	return g, ok
}

func (g grant) tree() *tree {
	t := &tree{kind: isMapping}
	if g.hasQuota {
		t.add("quota", number(g.quota))
	}
	if g.hasHeadroom {
		t.add("headroom", number(g.headroom))
	}
	return t
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

// pool reads one pool, or returns nil if something is wrong with it.
func (r *reader) pool(e entry, pools *tree) *Pool {
	t, label := e.value, fmt.Sprintf("pool %q", e.key)
	if !r.sound(t, "pool", label) {
		return nil
	}
	a := &Pool{Name: e.key, Accounts: map[string][]Window{}, grants: map[string]grant{}}
	g, ok := r.grant(t)
	w := t.get("windows")
	if w == nil {
		others := pools.without(e.key).keys()
		r.fault(r.missing(t, "windows", e.at), "%s has no windows%s", label, orMean(e.key, others, "give it at least one, such as {per: 24h}"))
		return nil
	}
	l, sound := r.windows(w, "window", label)
	if !ok || !sound {
		return nil
	}
	if g.headroom > 0 && !g.hasQuota {
		r.fault(t.get("headroom").at, "headroom of %s changes nothing without a quota beside it; give it to the windows that have a quota of their own", label)
		return nil
	}
	if a.Windows, ok = r.limits(&l, g, label, t); !ok {
		return nil
	}
	a.grant, a.own = g, l.own
	return a
}

func (p *Pool) tree() *tree {
	t := p.grant.tree()
	t.add("windows", windowTrees(p.Windows, p.own))
	return t
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
