package book

import (
	"maps"
	"slices"
)

// Laying one book over another happens on trees, before anything is checked:
// mapping by mapping, the upper one's scalars and lists win, null removes. What
// comes out is read like a book that had been written in one piece, except that
// each value still knows the file it stands in.

// merge lays a book over the one it extends; under is nil if it extends none.
func (r *reader) merge(under, over *tree) *tree {
	over = over.without("extends")
	spell(over)
	if under == nil {
		under = &tree{kind: isMapping}
	}
	t := r.lay(under, over, nil)
	canonical(t)
	return t
}

// spell writes the short forms out: a bare number as a method is its cost, as a
// key of a family its quota.
func spell(t *tree) {
	full := func(t *tree, key string) {
		if t == nil {
			return
		}
		for i := range t.entries {
			if n := t.entries[i].value; n.kind == isNumber {
				t.entries[i].value = &tree{kind: isMapping, at: n.at, entries: []entry{{key, n.at, n}}}
			}
		}
	}
	for _, u := range t.members("upstreams") {
		full(u.value.get("methods"), "cost")
	}
	for _, f := range t.members("families") {
		full(f.value.get("keys"), "quota")
	}
}

// canonical leaves one way to say what a method charges, so that the next book
// laid over this one meets no other: a single pool is pool and cost, and the
// only pool of an upstream is named.
func canonical(t *tree) {
	for _, u := range t.members("upstreams") {
		sole := ""
		if pools := u.value.members("pools"); len(pools) == 1 {
			sole = pools[0].key
		}
		methods := u.value.get("methods")
		for i := range u.value.members("methods") {
			e := &methods.entries[i]
			charge, cost, pool := e.value.get("charge"), e.value.get("cost"), e.value.get("pool")
			switch {
			case charge != nil && charge.kind == isMapping && len(charge.entries) == 1 && cost == nil && pool == nil:
				c := charge.entries[0]
				e.value = e.value.without("charge")
				e.value.put("pool", c.at, &tree{kind: isText, at: c.at, text: c.key})
				e.value.put("cost", c.value.at, c.value)
			case charge == nil && pool == nil && cost != nil && sole != "":
				e.value = e.value.without()
				e.value.put("pool", cost.at, &tree{kind: isText, at: cost.at, text: sole})
			}
		}
	}
}

// lay lays one mapping over another. Path is the keys that led here.
func (r *reader) lay(under, over *tree, path []string) *tree {
	if over.kind != isMapping {
		return over
	}
	if under == nil || under.kind != isMapping {
		under = &tree{kind: isMapping}
	}
	noun := member(path)
	if len(path) > 0 && member(path[:len(path)-1]) == "method" {
		under = r.recharge(under, over, path[len(path)-1])
	}
	t := &tree{kind: isMapping, at: over.at, entries: slices.Clone(under.entries), gone: maps.Clone(under.gone)}
	places := make(map[string]int, len(t.entries)) // of entries: a book may have thousands of methods
	for i, e := range t.entries {
		places[e.key] = i
	}
	removed := map[string]bool{}
	left := func() *tree {
		c := *t
		c.entries = slices.DeleteFunc(slices.Clone(t.entries), func(e entry) bool { return removed[e.key] })
		return &c
	}
	for _, e := range over.entries {
		i, has := places[e.key]
		var old *tree
		if has {
			old = t.entries[i].value
		}
		switch {
		case e.value.kind == isNull:
			if old == nil && noun != "" {
				r.fault(e.at, "there is no %s %q to remove%s", noun, e.key,
					orMean(e.key, left().keys(), "null takes away what the extended book has"))
			}
			if t.gone == nil {
				t.gone = map[string]place{}
			}
			t.gone[e.key], removed[e.key] = e.at, true
		case noun == "method" && old == nil && len(under.entries) > 0 && onlyPrice(e.value):
			r.fault(e.at, "method %q is not in the route table%s", e.key,
				orMean(e.key, left().keys(), "a method of your own needs a pool beside its cost"))
		default:
			laid := entry{e.key, e.at, r.lay(old, e.value, append(slices.Clone(path), e.key))}
			if has {
				t.entries[i] = laid
			} else {
				t.entries = append(t.entries, laid) // each key of over comes once
			}
			delete(t.gone, e.key)
		}
	}
	return left()
}

// onlyPrice holds for a method that changes the price of one that exists.
func onlyPrice(t *tree) bool {
	return t.kind == isMapping && t.get("pool") == nil && t.get("charge") == nil && t.get("route") == nil
}

// recharge takes away the inherited form of a method's charge where the overlay
// uses the other one.
func (r *reader) recharge(under, over *tree, name string) *tree {
	has := func(key string) bool { t := over.get(key); return t != nil && t.kind != isNull }
	switch {
	case has("charge"):
		return under.without("pool", "cost")
	case has("cost") && !has("pool") && under.get("charge") != nil:
		r.fault(over.entry("cost").at, "method %q charges several pools, so one number is no price; write charge: {%s: ...}",
			name, under.members("charge")[0].key)
		first := under.members("charge")[0]
		under = under.without("charge")
		under.put("pool", first.at, &tree{kind: isText, at: first.at, text: first.key}) // so that this stays the only fault
		return under
	case has("pool"):
		return under.without("charge")
	}
	return under
}

// member is the word for an entry of the mapping at path, if its keys are names
// rather than attributes.
func member(path []string) string {
	nouns := map[string]string{
		"upstreams": "upstream", "families": "family", "classes": "class", "accounts": "account",
		"pools": "pool", "methods": "method", "charge": "pool", "keys": "key",
	}
	// Names stand at every second step: upstreams, youtube, methods, ...
	if len(path)%2 == 0 {
		return ""
	}
	return nouns[path[len(path)-1]]
}
