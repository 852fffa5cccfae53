package book

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

// kind is what a node of a price book's YAML is.
type kind = strictyaml.Kind

const (
	isMapping = strictyaml.Mapping
	isList    = strictyaml.List
	isNumber  = strictyaml.Number
	isText    = strictyaml.Text
	isFlag    = strictyaml.Flag
	isNull    = strictyaml.Null // removes what is inherited
	isUnset   = strictyaml.Unset
)

// tree is a price book's YAML, with the place of everything: what is left of it
// when comments, quotes and styles are gone.
type tree struct {
	kind    kind
	at      place
	text    string  // of a scalar
	entries []entry // of a mapping, in their order
	items   []*tree // of a list

	gone map[string]place // entries that an overlay removed, and where it did
	flow bool             // printed on one line
	one  bool             // a mapping that an overlay replaces whole

	faulty bool // it has a fault, or something in it
	lost   bool // a mapping with a key that nobody can read: its keys say too little
}

// entry is a key of a mapping with its value.
type entry struct {
	key   string
	at    place
	value *tree
}

func (t *tree) get(key string) *tree {
	if e := t.entry(key); e != nil {
		return e.value
	}
	return nil
}

func (t *tree) entry(key string) *entry {
	if t == nil {
		return nil
	}
	for i := range t.entries {
		if t.entries[i].key == key {
			return &t.entries[i]
		}
	}
	return nil
}

func (t *tree) keys() []string {
	if t == nil {
		return nil
	}
	keys := make([]string, len(t.entries))
	for i, e := range t.entries {
		keys[i] = e.key
	}
	return keys
}

// without returns a mapping that lacks some keys; t stays as it is.
func (t *tree) without(keys ...string) *tree {
	c := *t
	c.entries = slices.DeleteFunc(slices.Clone(t.entries), func(e entry) bool { return slices.Contains(keys, e.key) })
	return &c
}

func (t *tree) add(key string, value *tree) {
	t.entries = append(t.entries, entry{key: key, value: value})
}

func text(s string) *tree { return &tree{kind: isText, text: s} }

// both is a mapping of what a value cannot be at once. Its reader refuses it.
func both(key string, value *tree, other string, second *tree) *tree {
	return &tree{kind: isMapping, flow: true, entries: []entry{{key: key, value: value}, {key: other, value: second}}}
}

func number(n int64) *tree { return &tree{kind: isNumber, text: strconv.FormatInt(n, 10)} }

// parse reads the text of a book, or returns nil and has collected why not.
func (r *reader) parse(data []byte) *tree {
	before := len(r.faults)
	file := strictyaml.File{Name: r.top.name, Noun: "a price book", Plain: true, Fault: func(at strictyaml.Place, message string) {
		r.fault(r.in(at), "%s", message)
	}}
	root := file.Parse(data)
	switch {
	case len(r.faults) > before:
		return nil
	case root == nil:
		r.fault(place{r.top, 1, 1}, "empty: a price book begins with revision: 1 or extends: builtin")
		return nil
	case root.Kind != isMapping:
		r.fault(r.in(root.At), "a price book is a mapping of revision, extends, upstreams and families, this is %s", root.Kind)
		return nil
	}
	return r.tree(root)
}

func (r *reader) in(at strictyaml.Place) place { return place{r.top, at.Line, at.Column} }

// tree returns a tree that other books can be laid over.
func (r *reader) tree(n *strictyaml.Node) *tree {
	t := &tree{kind: n.Kind, at: r.in(n.At), text: n.Text}
	if t.kind == isFlag {
		t.text = strings.ToLower(t.text)
	}
	for _, e := range n.Entries {
		t.entries = append(t.entries, entry{e.Key, r.in(e.At), r.tree(e.Value)})
	}
	for _, item := range n.Items {
		t.items = append(t.items, r.tree(item))
	}
	return t
}
