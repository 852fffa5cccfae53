package book

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/internal/strictyaml"
	"github.com/headroom-quota/headroom/quota/book/keys"
)

// DefaultAccount is the only account of an upstream for which the book lists none.
const DefaultAccount = "default"

// Limits of a book, and of the reservations and blocks of a ledger.
const (
	MaxCharges = 16                   // pools that one call charges
	MaxWindows = 16                   // windows of one pool
	MaxBlock   = 366 * 24 * time.Hour // the longest time for which a refusal shuts a pool
)

// Book is a checked price book: the prices of upstreams' methods, and the limits.
// [Parse] and [Make] make one, and it never changes.
type Book struct {
	Revision  int64
	Upstreams map[string]*Upstream
	Families  map[string]*Family

	// Descriptors say what the descriptors of Envoy's rate limit service mean.
	Descriptors []Descriptor

	keys    *keys.Book // it as the file has it, with short forms and defaults written out
	extends []string   // the built-in books that it is a difference from
	base    *Book      // them, joined
	hosts   map[string][]hostPath
	wild    map[string][]hostPath // of hosts with a *, by what follows it
}

// Policy says how to treat a call when the right answer is not known.
type Policy string

// The two policies; the zero value means [Refuse].
const (
	Refuse Policy = "refuse"
	Admit  Policy = "admit"
)

// Options are the settings of [Parse] and [Make].
type Options struct {
	// Builtins returns the text of a built-in price book by its name, "builtin" or
	// "builtin/...". If Builtins is nil, a book with extends is refused.
	Builtins func(name string) ([]byte, bool)
	// Names are those of the built-in books, for messages. It may be empty.
	Names []string
}

// Parse reads a price book and checks it. Errors begin with the name, then the
// line and column. Nil options are the zero value.
//
// It reports the first ten faults, each as an [Error], and how many more there
// are. The errors match [ErrBadInput].
func Parse(name string, data []byte, o *Options) (*Book, error) {
	l := layers{open: map[string]bool{}}
	if o != nil {
		l.Options = *o
	}
	_, b, err := l.read(name, data)
	return b, err
}

// layers reads a book and those it extends.
type layers struct {
	Options
	open map[string]bool // being read further out: extending one is a cycle
}

// read returns a book and the tree that further books can be laid over.
func (l *layers) read(name string, data []byte) (*tree, *Book, error) {
	r := newReader(name)
	over := r.parse(data)
	if over == nil {
		return nil, nil, r.err()
	}
	extends, ok := r.extends(over)
	if !ok {
		return nil, nil, r.err()
	}
	var under *tree
	var base *Book
	var names []string
	for _, e := range extends {
		text, err := l.builtin(e.Text)
		if err != nil {
			r.fault(e.At, "%s", err.Error())
			return nil, nil, r.err()
		}
		l.open[e.Text] = true
		t, b, err := l.read(e.Text, text)
		delete(l.open, e.Text)
		if err == nil && base != nil {
			t, b, err = join(r.top, under, base, t, b)
		}
		if err != nil {
			return nil, nil, err
		}
		under, base = t, b
		names = append(names, e.Text)
	}
	merged := r.lay(under, over.Without("extends"), bookField(), "")
	b := r.book(merged)
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	b.extends, b.base = names, base
	return merged, b, nil
}

// join lays one built-in book over another. The revision is the sum of both, so that
// it rises if either does.
func join(top *strictyaml.File, under *tree, before *Book, over *tree, b *Book) (*tree, *Book, error) {
	r := &reader{top: top}
	joined := r.lay(under, over, bookField(), "")
	joined.Get("revision").Value = number(before.Revision + b.Revision)
	both := r.book(joined)
	return joined, both, r.err()
}

// builtin finds the text of a book that another extends.
func (l *layers) builtin(name string) ([]byte, error) {
	if l.open[name] {
		return nil, fmt.Errorf("extends %q goes round in a circle", name)
	}
	if l.Builtins == nil {
		return nil, fmt.Errorf("extends %q, but no built-in price books are at hand; write the book out", name)
	}
	if text, ok := l.Builtins(name); ok && isBuiltin(name) {
		return text, nil
	}
	remedy := "; try extends: builtin"
	if len(l.Names) > 0 {
		remedy = orMean(name, l.Names, "there are "+list(l.Names, "and"))
	}
	return nil, fmt.Errorf("there is no built-in price book %q%s", name, remedy)
}

// extends reads which books this one is a difference from.
func (r *reader) extends(t *tree) ([]*tree, bool) {
	e := t.Value("extends")
	if e == nil {
		return nil, true
	}
	items := e.Items
	if e.Kind != isList {
		items = []*tree{e}
	}
	if len(items) == 0 {
		r.fault(e.At, "extends is empty; name a built-in price book, or leave it out")
		return nil, false
	}
	for i, item := range items {
		if item.Kind != isText || !isBuiltin(item.Text) {
			r.fault(item.At, "extends must name a built-in price book, builtin or builtin/..., is %s", show(item))
			return nil, false
		}
		if slices.ContainsFunc(items[:i], func(t *tree) bool { return t.Text == item.Text }) {
			r.fault(item.At, "extends names %s twice; keep one", item.Text)
			return nil, false
		}
	}
	return items, true
}

// isBuiltin holds for the names that may stand behind extends.
func isBuiltin(name string) bool {
	variant, ok := strings.CutPrefix(name, "builtin")
	return ok && (variant == "" || strings.HasPrefix(variant, "/") && wideName(variant[1:]) == "")
}

// book makes a book of a tree. Its result counts only if there were no faults.
func (r *reader) book(t *tree) *Book {
	d := r.decode(t)
	b := &Book{Revision: d.Revision, Upstreams: map[string]*Upstream{}, Families: map[string]*Family{}, keys: d, hosts: map[string][]hostPath{}}
	hosts := map[string]*string{}
	for _, name := range r.names(&d.Upstreams) {
		u := r.upstream(name, d.Upstreams[name])
		b.Upstreams[name] = u
		for i := range u.Hosts {
			host := &u.Hosts[i]
			if !r.sound(host) {
				continue
			}
			if before, dup := hosts[*host]; dup {
				at, other := r.twice(host, before)
				r.fault(at, "host %q is given twice, the other time at %s; keep one", *host, other)
			}
			hosts[*host] = host
			b.addHost(*host, u.routes)
		}
	}
	for _, name := range r.names(&d.Families) {
		b.Families[name] = r.family(name, d.Families[name])
	}
	r.spills(b, d)
	r.budgets(b, d)
	b.Descriptors = r.descriptors(d.Descriptors, b)
	return b
}

// Follows returns an error if a running ledger cannot change from the book before to
// this one: the revision is lower, or it is the same but a pool or family has other
// windows. A store with pages laid out by the book before would refuse every call.
// Call it before Ledger.SetBook of package quota.
func (b *Book) Follows(before *Book) error {
	if b == nil || before == nil {
		return BadInput("compare price books: one is missing; it is made by book.Parse")
	}
	if b.Revision > before.Revision {
		return nil
	}
	if b.Revision < before.Revision {
		return BadInput("the price book has revision %d, and %d is in use: raise its revision", b.Revision, before.Revision)
	}
	now, was := b.layouts(), before.layouts()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if layout, known := was[name]; known && layout != now[name] {
			return BadInput("%s has other windows under the same revision %d of the price book: raise its revision", name, b.Revision)
		}
	}
	return nil
}

// layouts are how the pages of pools and families are laid out, by name.
func (b *Book) layouts() map[string]string {
	all := map[string]string{}
	for _, u := range b.Upstreams {
		for _, account := range u.Accounts {
			who := u.Name
			if account != DefaultAccount {
				who += "@" + account
			}
			for _, p := range u.Pools {
				all[who+"/"+p.Name] = layout(p.WindowsFor(account))
			}
		}
	}
	for name, f := range b.Families {
		all["family "+name] = layout(f.Windows)
		for key, windows := range f.Overrides {
			all["family "+name+", key "+key] = layout(windows)
		}
	}
	return all
}

// layout is how a page with these windows is laid out.
func layout(windows []Window) string {
	return strings.Join(textsOf(windows, func(w Window) string { return w.Layout() }), "; ")
}
