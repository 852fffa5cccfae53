package book

import "fmt"

const (
	// defaultMaxKeys is how many pages a family has at most if it does not say.
	defaultMaxKeys = 100_000
	// mostMaxKeys is what it may say.
	mostMaxKeys = 10_000_000
	// longestKey bounds the keys of a family that have limits of their own.
	longestKey = 1024
)

// Family is a limit per key: each gets a page of its own on first use.
type Family struct {
	Name      string
	Windows   []Window
	MaxKeys   int                 // pages at most
	Overrides map[string][]Window // limits of single keys

	grant  grant
	own    []grant
	grants map[string]keyGrant
}

// keyGrant is what the book says of a single key of a family.
type keyGrant struct {
	grant grant
	own   []grant // nil: the windows are the family's
}

// family reads one family.
func (r *reader) family(e entry) *Family {
	f := &Family{Name: e.key, MaxKeys: defaultMaxKeys, Overrides: map[string][]Window{}, grants: map[string]keyGrant{}}
	t, label := e.value, fmt.Sprintf("family %q", e.key)
	if !r.sound(t, "family", label) {
		return f
	}
	if m := t.get("max_keys"); m != nil {
		n, _ := r.integer(m, "max_keys", 1, mostMaxKeys)
		f.MaxKeys = int(n)
	}
	g, ok := r.grant(t)
	w := t.get("windows")
	if w == nil {
		r.fault(r.missing(t, "windows", e.at), "%s has no windows; give it at least one, such as {per: 1m, quota: 60}", label)
		return f
	}
	l, sound := r.windows(w, "family window", label)
	if !ok || !sound {
		return f
	}
	f.grant, f.own = g, l.own
	if f.Windows, ok = r.limits(&l, g, label, t); !ok {
		return f
	}
	for _, k := range r.named(t.get("keys"), "keys of "+label, plainText(longestKey)) {
		r.familyKey(f, k, &l, t)
	}
	return f
}

// familyKey reads the limits of a single key; l are the family's windows.
func (r *reader) familyKey(f *Family, e entry, l *windowList, family *tree) {
	label := fmt.Sprintf("key %q of family %q", e.key, f.Name)
	if !r.sound(e.value, "key", label) {
		return
	}
	own, ok := r.grant(e.value)
	var kept []grant
	if w := e.value.get("windows"); w != nil {
		list, sound := r.windows(w, "family window", label)
		l, kept, ok = &list, list.own, ok && sound
	}
	if !ok {
		return
	}
	if own.hasQuota && !l.takes() {
		r.fault(e.value.get("quota").at, "the quota of %s changes nothing: every window has one of its own; give it windows", label)
		return
	}
	if !own.hasQuota && kept == nil {
		r.fault(e.at, "%s says nothing; give it a quota or windows, or remove it", label)
		return
	}
	g := f.grant
	if own.hasQuota {
		g = own
	}
	if w, sound := r.limits(l, g, label, e.value, family); sound {
		f.Overrides[e.key], f.grants[e.key] = w, keyGrant{grant: own, own: kept}
	}
}

func (f *Family) tree() *tree {
	t := f.grant.tree()
	t.add("windows", windowTrees(f.Windows, f.own))
	t.add("max_keys", number(int64(f.MaxKeys)))
	keys := &tree{kind: isMapping}
	for _, key := range sorted(f.Overrides) {
		g := f.grants[key]
		k := g.grant.tree()
		k.flow = true
		if g.own != nil {
			k.add("windows", windowTrees(f.Overrides[key], g.own))
		}
		keys.add(key, k)
	}
	t.addFull("keys", keys)
	return t
}
