package quota

import (
	"github.com/headroom-quota/headroom/quota/window"
)

// Book is a price book, read and checked: what the methods of upstreams cost,
// and how much there is. It is made by [ParseBook] and never changes.
type Book struct {
	Revision  int64
	Upstreams map[string]*Upstream
	Families  map[string]*Family
}

// Upstream is a metered API.
type Upstream struct {
	Name     string
	Hosts    []string // requests to these are metered
	Unpriced Policy   // what to do with a call that has no price
	Classes  map[string]Class
	Accounts []string // those who may spend; "default" if the book names none
	Pools    map[string]*Allowance
	Methods  map[string]*Method
}

// Policy is what to do when the right answer is not known.
type Policy string

// The two policies; the zero value means [Refuse].
const (
	Refuse Policy = "refuse"
	Admit  Policy = "admit"
)

// Class is a kind of caller.
type Class struct {
	KeepFree        int64  // units of each window's limit that it leaves free,
	KeepFreePercent int64  // or that part of the limit in percent, rounded up
	UseHeadroom     bool   // may draw on the headroom
	Outage          Policy // overrides the method's; "" leaves it
}

// Allowance is what the price book says of a pool.
type Allowance struct {
	Name     string
	Windows  []Window
	Accounts map[string][]Window // of accounts with limits of their own
}

// Window is a limit over time on a pool.
type Window struct {
	window.Spec
	Quota    int64 // what the upstream grants
	Headroom int64 // what ordinary calls leave free of it
}

// Method is one call of an upstream, and its price.
type Method struct {
	Name    string
	Routes  []Route
	Charges map[string]int64 // units by pool
	Outage  Policy
	Source  string // where the price comes from
}

// Route is how a method looks in HTTP: a verb and a path template such as
// "/youtube/v3/captions/{id}".
type Route struct {
	Verb string
	Path string
}

// Family is a limit per key: each gets a page of its own on first use.
type Family struct {
	Name      string
	Windows   []Window
	MaxKeys   int
	Overrides map[string][]Window // limits of single keys
}
