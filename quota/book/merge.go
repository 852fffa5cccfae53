package book

import "maps"

// One book is laid over another as a tree, before anything is checked. In each
// mapping, scalars and lists of the upper book replace those of the lower one, and
// null removes a key. The result is read like a book in one piece, but each value
// still knows its file.

// lay lays one mapping over another, which may be nil. The field describes both; it
// is nil for an unknown key. The name is the key of both.
func (r *reader) lay(under, over *tree, f *field, name string) *tree {
	over = f.long(over)
	if over.kind != isMapping || f.whole() {
		return over
	}
	if under == nil || under.kind != isMapping {
		under = &tree{}
	}
	noun := "" // of entries
	switch {
	case f == nil:
	case f.record == nil:
		noun = f.noun
	case f.noun == "method":
		under = r.recharge(under, over, name)
	}
	t := &tree{kind: isMapping, at: over.at, gone: maps.Clone(under.gone)}
	upper := make(map[string]entry, len(over.entries))
	for _, e := range over.entries {
		upper[e.key] = e
	}
	known := make(map[string]bool, len(under.entries))
	for _, e := range under.entries {
		known[e.key] = true
		switch o, has := upper[e.key]; {
		case !has:
			t.entries = append(t.entries, e)
		case o.value.kind != isNull:
			t.entries = append(t.entries, entry{e.key, o.at, r.lay(e.value, o.value, f.child(e.key), e.key)})
		}
	}
	for _, e := range over.entries {
		child := f.child(e.key)
		switch {
		case e.value.kind == isNull:
			if !known[e.key] && noun != "" {
				r.fault(e.at, "there is no %s %q to remove%s", noun, e.key,
					orMean(e.key, t.keys(), "null takes away what the extended book has"))
			}
			if t.gone == nil {
				t.gone = map[string]place{}
			}
			t.gone[e.key] = e.at
		case known[e.key]:
		case noun == "method" && len(under.entries) > 0 && onlyPrice(child.long(e.value)):
			r.fault(e.at, "method %q is not in the route table%s", e.key,
				orMean(e.key, t.keys(), "a method of your own needs a pool beside its cost"))
		default:
			delete(t.gone, e.key)
			t.entries = append(t.entries, entry{e.key, e.at, r.lay(nil, e.value, child, e.key)})
		}
	}
	if f != nil && f.record != nil && f.noun == "upstream" {
		canonical(t)
	}
	return t
}

// onlyPrice holds for a method that changes the price of one that exists.
func onlyPrice(t *tree) bool {
	return t.kind == isMapping && t.get("pool") == nil && t.get("charge") == nil && t.get("route") == nil
}

// recharge takes away the inherited form of a method's charge where the overlay
// uses the other one.
func (r *reader) recharge(under, over *tree, name string) *tree {
	has := func(key string) bool { t := over.get(key); return t != nil && t.kind != isNull }
	several := under.get("charge")
	switch {
	case has("charge"):
		return under.without("pool", "cost")
	case has("cost") && !has("pool") && several != nil:
		first := several.entries[0]
		r.fault(over.entry("cost").at, "method %q charges several pools, so one number is no price; write charge: {%s: ...}", name, first.key)
		return under.priced(first, entry{"cost", first.at, first.value}) // so that this stays the only fault
	case has("pool"):
		return under.without("charge")
	}
	return under
}

// canonical leaves one way to say what the methods of an upstream charge, so that
// the next book laid over this one meets no other: a single pool is pool and cost,
// and the only pool of an upstream is named.
func canonical(u *tree) {
	pools, methods := u.get("pools").keys(), u.get("methods")
	for i := range methods.keys() {
		e := &methods.entries[i]
		charge, cost, pool := e.value.get("charge"), e.value.get("cost"), e.value.get("pool")
		switch {
		case charge != nil && charge.kind == isMapping && len(charge.entries) == 1 && cost == nil && pool == nil:
			e.value = e.value.priced(charge.entries[0], entry{"cost", charge.entries[0].at, charge.entries[0].value})
		case charge == nil && pool == nil && cost != nil && len(pools) == 1:
			e.value = e.value.priced(entry{key: pools[0], at: cost.at}, *e.value.entry("cost"))
		}
	}
}

// priced returns a method that charges a single pool.
func (t *tree) priced(pool, cost entry) *tree {
	t = t.without("charge", "pool", "cost")
	t.entries = append(t.entries, entry{"pool", pool.at, &tree{kind: isText, at: pool.at, text: pool.key}}, cost)
	return t
}
