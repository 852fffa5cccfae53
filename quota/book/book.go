package book

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// DefaultAccount is the account of an upstream whose book lists none.
const DefaultAccount = "default"

// The most that a book and a reservation may hold.
const (
	MaxCharges = 16                   // pools that one call charges
	MaxWindows = 16                   // windows of a pool
	MaxBlock   = 366 * 24 * time.Hour // how long a block lasts
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

// Upstream is a metered API.
type Upstream struct {
	Name     string
	Hosts    []string // requests to these are metered
	Unpriced Policy   // what to do with a call that has no price
	Key      APIKey   // how a call over HTTP says whose it is
	// Resumable is the query parameter that names an upload under way: a request
	// that has it and a Content-Range goes on with one that was charged when it
	// began. Empty if there are none.
	Resumable string
	Refusals  []Refusal // what the upstream's own no means; the first that matches
	Classes   map[string]Class
	Accounts  []string // those who may spend, sorted; "default" if the book names none
	Pools     map[string]*Pool
	Methods   map[string]*Method

	listed bool // the book lists the accounts
}

// Suggest returns the method whose name is most like a misspelt one, or "".
func (u *Upstream) Suggest(method string) string {
	return nearest(method, slices.Collect(maps.Keys(u.Methods)))
}

// Policy is what to do when the right answer is not known.
type Policy string

// The two policies; the zero value means [Refuse].
const (
	Refuse Policy = "refuse"
	Admit  Policy = "admit"
)

// Class is a kind of caller. The zero value is an ordinary one.
type Class struct {
	KeepFree        int64  // units of each window's limit that it leaves free,
	KeepFreePercent int64  // or that part of the limit in percent, rounded up
	UseHeadroom     bool   // may draw on the headroom
	Outage          Policy // overrides the method's; "" leaves it
}

// Pool is what the price book says of a pool.
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

// Window is a limit over time on a pool.
type Window struct {
	window.Spec
	Quota    int64 // what the upstream grants
	Headroom int64 // what ordinary calls leave free of it
}

// Limit is what callers of a class may use of the window.
func (w Window) Limit(c Class) int64 {
	limit := w.Quota
	if !c.UseHeadroom {
		limit -= w.Headroom
	}
	return limit - c.KeepFree - (limit*c.KeepFreePercent+99)/100
}

// Method is one call of an upstream, and its price.
type Method struct {
	Name    string
	Routes  []Route
	Charges map[string]int64 // units by pool; 0 is free of charge
	Outage  Policy
	Source  string // where the price comes from
}

// Route is how a method looks in HTTP: a verb and a path template such as
// "/youtube/v3/captions/{id}".
type Route struct {
	Verb string
	Path string
}

// String is how the price book writes it: "GET /youtube/v3/captions/{id}".
func (r Route) String() string { return r.Verb + " " + r.Path }

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

// Options are what [Parse] needs to know beside the text.
type Options struct {
	// Builtins returns the text of a built-in price book, by the name that
	// stands behind extends: "builtin" or "builtin/...". The zero value has
	// none, and a book that extends another is refused.
	Builtins func(name string) ([]byte, bool)
}

// Parse reads a price book and checks it. The name stands before the line
// and column in errors; o may be nil.
//
// Every fault is reported, each as a [Error]; together they match
// [ErrBadInput].
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
