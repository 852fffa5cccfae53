package book

import (
	"maps"
	"strconv"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

const (
	isMapping = strictyaml.Mapping
	isList    = strictyaml.List
	isNumber  = strictyaml.Number
	isText    = strictyaml.Text
	isFlag    = strictyaml.Flag
	isNull    = strictyaml.Null // removes what is inherited
	isUnset   = strictyaml.Unset
)

// tree is a price book's YAML, with the place of everything.
type (
	tree  = strictyaml.Node
	entry = strictyaml.Entry
	place = strictyaml.Place
)

func text(s string) *tree { return &tree{Kind: isText, Text: s} }

func number(n int64) *tree { return &tree{Kind: isNumber, Text: strconv.FormatInt(n, 10)} }

// both is a mapping of what a value cannot be at once. Its reader refuses it.
func both(key string, value *tree, other string, second *tree) *tree {
	return &tree{Kind: isMapping, Flow: true, Entries: []entry{{Key: key, Value: value}, {Key: other, Value: second}}}
}

// parse reads the text of a book, or returns nil and has collected why not.
func (r *reader) parse(data []byte) *tree {
	before := len(r.faults)
	root := r.top.Parse(data)
	switch {
	case len(r.faults) > before:
		return nil
	case root == nil:
		r.fault(r.top.Place(1, 1), "empty: a price book begins with revision: 1 or extends: builtin")
		return nil
	case root.Kind != isMapping:
		r.fault(root.At, "a price book is a mapping of revision, extends, upstreams and families, this is %s", root.Kind)
		return nil
	}
	return root
}

// One book is laid over another as a tree, before anything is checked. In each
// mapping, scalars and lists of the upper book replace those of the lower one, and
// null removes a key. The result is read like a book in one piece, but each value
// still knows its file.

// lay lays one mapping over another, which may be nil. The field describes both; it
// is nil for an unknown key. The name is the key of both.
func (r *reader) lay(under, over *tree, f *field, name string) *tree {
	over = f.long(over)
	if over.Kind != isMapping || f.whole() {
		return over
	}
	if under == nil || under.Kind != isMapping {
		under = &tree{}
	}
	noun := "" // of entries
	switch {
	case f == nil:
	case f.record == nil:
		noun = f.noun
	case f.noun == "method", f.noun == "default":
		under = r.recharge(under, over, name)
	}
	t := &tree{Kind: isMapping, At: over.At, Gone: maps.Clone(under.Gone)}
	upper := make(map[string]entry, len(over.Entries))
	for _, e := range over.Entries {
		upper[e.Key] = e
	}
	known := make(map[string]bool, len(under.Entries))
	for _, e := range under.Entries {
		known[e.Key] = true
		switch o, has := upper[e.Key]; {
		case !has:
			t.Entries = append(t.Entries, e)
		case o.Value.Kind == isNull && e.Key == "no_spill" && noun == "" && f != nil:
			r.fault(o.At, "no_spill cannot be removed from the book that is extended: %s", e.Value.Text)
		case o.Value.Kind != isNull:
			t.Entries = append(t.Entries, entry{Key: e.Key, At: o.At, Value: r.lay(e.Value, o.Value, f.child(e.Key), e.Key)})
		}
	}
	for _, e := range over.Entries {
		child := f.child(e.Key)
		switch {
		case e.Value.Kind == isNull:
			if !known[e.Key] && noun != "" {
				r.fault(e.At, "there is no %s %q to remove%s", noun, e.Key,
					orMean(e.Key, t.Keys(), "null takes away what the extended book has"))
			}
			if t.Gone == nil {
				t.Gone = map[string]place{}
			}
			t.Gone[e.Key] = e.At
		case known[e.Key]:
		case noun == "method" && len(under.Entries) > 0 && onlyPrice(child.long(e.Value)):
			r.fault(e.At, "method %q is not in the route table%s", e.Key,
				orMean(e.Key, t.Keys(), "a method of your own needs a pool beside its cost"))
		default:
			delete(t.Gone, e.Key)
			t.Entries = append(t.Entries, entry{Key: e.Key, At: e.At, Value: r.lay(nil, e.Value, child, e.Key)})
		}
	}
	if f != nil && f.record != nil && f.noun == "upstream" {
		canonical(t)
	}
	return t
}

// onlyPrice holds for a method that changes the price of one that exists.
func onlyPrice(t *tree) bool {
	return t.Kind == isMapping && t.Value("pool") == nil && t.Value("charge") == nil && t.Value("route") == nil
}

// recharge takes away the inherited form of a method's charge where the overlay
// uses the other one.
func (r *reader) recharge(under, over *tree, name string) *tree {
	has := func(key string) bool { t := over.Value(key); return t != nil && t.Kind != isNull }
	several := under.Value("charge")
	switch {
	case has("charge"):
		return under.Without("pool", "cost")
	case has("cost") && !has("pool") && several != nil:
		first := several.Entries[0]
		r.fault(over.Get("cost").At, "method %q charges several pools, so one number is no price; write charge: {%s: ...}", name, first.Key)
		return priced(under, first, entry{Key: "cost", At: first.At, Value: first.Value}) // so that this stays the only fault
	case has("pool"):
		return under.Without("charge")
	}
	return under
}

// canonical leaves one way to say what the methods of an upstream charge, so that
// the next book laid over this one meets no other: a single pool is pool and cost,
// and the only pool of an upstream is named.
func canonical(u *tree) {
	pools := u.Value("pools").Keys()
	for _, key := range []string{"methods", "default"} {
		methods := u.Value(key)
		for i := range methods.Keys() {
			e := &methods.Entries[i]
			charge, cost, pool := e.Value.Value("charge"), e.Value.Value("cost"), e.Value.Value("pool")
			switch {
			case charge != nil && charge.Kind == isMapping && len(charge.Entries) == 1 && cost == nil && pool == nil:
				e.Value = priced(e.Value, charge.Entries[0], entry{Key: "cost", At: charge.Entries[0].At, Value: charge.Entries[0].Value})
			case charge == nil && pool == nil && cost != nil && len(pools) == 1:
				e.Value = priced(e.Value, entry{Key: pools[0], At: cost.At}, *e.Value.Get("cost"))
			}
		}
	}
}

// priced returns a method that charges a single pool.
func priced(t *tree, pool, cost entry) *tree {
	t = t.Without("charge", "pool", "cost")
	t.Entries = append(t.Entries, entry{Key: "pool", At: pool.At, Value: &tree{Kind: isText, At: pool.At, Text: pool.Key}}, cost)
	return t
}
