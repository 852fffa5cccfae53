package book

import (
	"strings"

	"github.com/headroom-quota/headroom/internal/strictyaml"
)

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
