package book

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// DefaultAccount is the only account of an upstream for which the book lists none.
const DefaultAccount = "default"

// Limits of a book, and of the reservations and blocks of a ledger.
const (
	MaxCharges = 16                   // pools that one call charges
	MaxWindows = 16                   // windows of one pool
	MaxBlock   = 366 * 24 * time.Hour // the longest time for which a refusal shuts a pool
)

// Book is a price book, read and checked: what the methods of upstreams cost,
// and how much there is. It is made by [Parse] and never changes.
type Book struct {
	Revision  int64
	Upstreams map[string]*Upstream
	Families  map[string]*Family

	extends string // the book it is a difference from, or ""
	base    *Book  // that book
	hosts   map[string]*routeTable
}

// Policy is what to do when the right answer is not known.
type Policy string

// The two policies; the zero value means [Refuse].
const (
	Refuse Policy = "refuse"
	Admit  Policy = "admit"
)

// Options are the settings of [Parse].
type Options struct {
	// Builtins returns the text of a built-in price book, by the name that
	// stands behind extends: "builtin" or "builtin/...". The zero value has
	// none, and a book that extends another is refused.
	Builtins func(name string) ([]byte, bool)
}

// Parse reads a price book and checks it. Errors begin with the name, then the
// line and column. Nil options are those of zero value.
//
// It reports the first ten faults, each as an [Error], and how many more there
// are. The errors match [ErrBadInput].
func Parse(name string, data []byte, o *Options) (*Book, error) {
	l := layers{open: map[string]bool{}}
	if o != nil {
		l.builtins = o.Builtins
	}
	_, b, err := l.read(name, data)
	return b, err
}

// layers reads a book and those it extends.
type layers struct {
	builtins func(string) ([]byte, bool)
	open     map[string]bool // being read further out: extending one is a cycle
}

// read returns a book and the tree that further books can be laid over.
func (l *layers) read(name string, data []byte) (*tree, *Book, error) {
	r := &reader{top: newSource(name, data)}
	over := r.parse(data)
	if over == nil {
		return nil, nil, r.err()
	}
	extends, at, ok := r.extends(over)
	if !ok {
		return nil, nil, r.err()
	}
	var under *tree
	var base *Book
	if extends != "" {
		text, err := l.builtin(extends)
		if err != nil {
			r.fault(at, "%s", err.Error())
			return nil, nil, r.err()
		}
		l.open[extends] = true
		under, base, err = l.read(extends, text)
		delete(l.open, extends)
		if err != nil {
			return nil, nil, err
		}
	}
	merged := r.merge(under, over)
	b := r.book(merged)
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	b.extends, b.base = extends, base
	return merged, b, nil
}

// builtin finds the text of a book that another extends.
func (l *layers) builtin(name string) ([]byte, error) {
	if l.open[name] {
		return nil, fmt.Errorf("extends %q goes round in a circle", name)
	}
	if l.builtins == nil {
		return nil, fmt.Errorf("extends %q, but no built-in price books are at hand; write the book out", name)
	}
	if text, ok := l.builtins(name); ok && isBuiltin(name) {
		return text, nil
	}
	return nil, fmt.Errorf("there is no built-in price book %q; try extends: builtin", name)
}

// extends reads which book this one is a difference from.
func (r *reader) extends(t *tree) (string, place, bool) {
	e := t.get("extends")
	if e == nil {
		return "", place{}, true
	}
	if e.kind != isText || !isBuiltin(e.text) {
		r.fault(e.at, "extends must name a built-in price book, builtin or builtin/..., is %s", e.show())
		return "", e.at, false
	}
	return e.text, e.at, true
}

// isBuiltin holds for the names that may stand behind extends.
func isBuiltin(name string) bool {
	variant, ok := strings.CutPrefix(name, "builtin")
	return ok && (variant == "" || strings.HasPrefix(variant, "/") && wideName(variant[1:]) == "")
}

// book reads a whole book. Its result counts only if there were no faults.
func (r *reader) book(t *tree) *Book {
	b := &Book{Upstreams: map[string]*Upstream{}, Families: map[string]*Family{}, hosts: map[string]*routeTable{}}
	r.sound(t, "price book", "the price book")
	switch rev := t.get("revision"); {
	case rev == nil:
		r.fault(r.missing(t, "revision", place{r.top, 1, 1}), "revision is missing; write revision: 1, and raise it with every change of a window")
	case rev.kind != isUnset: // sound has told
		b.Revision, _ = r.integer(rev, "revision", 1, math.MaxInt32)
	}
	hosts := map[string]place{}
	for _, e := range r.named(t.get("upstreams"), "upstreams", wideName) {
		u, routes := r.upstream(e)
		b.Upstreams[e.key] = u
		for i, h := range r.texts(e.value.get("hosts"), "hosts") {
			if first, dup := hosts[h.text]; dup {
				r.fault(r.blame(h.at, first), "host %q is given twice, the other time at %s; keep one", h.text, r.other(h.at, first))
			}
			hosts[h.text] = h.at
			if i < len(u.Hosts) {
				b.hosts[u.Hosts[i]] = routes
			}
		}
	}
	for _, e := range r.named(t.get("families"), "families", wideName) {
		b.Families[e.key] = r.family(e)
	}
	return b
}

// tree is the book as a tree. Whatever may have been left out is there, except
// what is empty.
func (b *Book) tree() *tree {
	t := &tree{kind: isMapping}
	t.add("revision", number(b.Revision))
	upstreams := &tree{kind: isMapping}
	for _, name := range sorted(b.Upstreams) {
		upstreams.add(name, b.Upstreams[name].tree())
	}
	t.addFull("upstreams", upstreams)
	families := &tree{kind: isMapping}
	for _, name := range sorted(b.Families) {
		families.add(name, b.Families[name].tree())
	}
	t.addFull("families", families)
	return t
}
