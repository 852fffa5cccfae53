package book

import (
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
