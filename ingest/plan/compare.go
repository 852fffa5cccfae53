package plan

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Compared is the same schedule with other windows.
type Compared struct {
	Windows  string           `json:"windows"`
	Units    map[string]int64 `json:"units"`    // by pool, in all days
	Deferred int              `json:"deferred"` // how often work was
	Refused  int64            `json:"refused"`  // by the upstream itself, which counts on its own
}

// The windows that are compared.
const (
	Configured   = "as configured"
	SlidingOnly  = "sliding only"
	CalendarOnly = "calendar only"
)

// alternatives are the plans with the sliding windows alone, and with the calendars
// alone. They are made beside the plan as configured, from when its ledger first says
// no: where it never does, it would not with fewer windows either, and they are the same.
type alternatives struct {
	scenario
	ctx  context.Context
	book *quota.Book

	side  sync.WaitGroup
	plans [2]*Plan // sliding, calendar
	errs  [2]error
}

func (a *alternatives) begin() {
	a.progress = func(time.Time) {}
	for i, drop := range []func(book.Window) bool{calendar, sliding} {
		a.side.Go(func() { a.plans[i], a.errs[i] = a.run(a.ctx, without(a.book, drop)) })
	}
}

// compare waits for them, and sets the plan beside them.
func (a *alternatives) compare(p *Plan) ([]Compared, error) {
	a.side.Wait()
	all := []Compared{p.sum(Configured)}
	for i, name := range []string{SlidingOnly, CalendarOnly} {
		if a.errs[i] != nil {
			return nil, a.errs[i]
		}
		other := p
		if a.plans[i] != nil {
			other = a.plans[i]
		}
		all = append(all, other.sum(name))
	}
	return all, nil
}

// sum adds up a plan.
func (p *Plan) sum(windows string) Compared {
	c := Compared{Windows: windows, Units: map[string]int64{}, Refused: p.Refused}
	for _, pool := range p.Pools {
		for _, d := range pool.Days {
			c.Units[pool.Pool] += d.Units
		}
	}
	for _, d := range p.Deferred {
		c.Deferred += d.Times
	}
	return c
}

// calendar and sliding are windows that bound a day or more; shorter ones guard
// against something else and always stay.
func calendar(w book.Window) bool { return w.Span() >= day && w.Calendar() }
func sliding(w book.Window) bool  { return w.Span() >= day && !w.Calendar() }

// without is a book without some windows, in pools that have others in their place.
func without(costs *quota.Book, drop func(book.Window) bool) *quota.Book {
	b, u := *costs, *costs.Upstreams[upstream]
	b.Upstreams = maps.Clone(b.Upstreams)
	b.Upstreams[upstream] = &u
	u.Pools = maps.Clone(u.Pools)
	for name, pool := range u.Pools {
		a := *pool
		a.Windows = kept(a.Windows, drop)
		a.Accounts = maps.Clone(a.Accounts)
		for account, windows := range a.Accounts {
			a.Accounts[account] = kept(windows, drop)
		}
		u.Pools[name] = &a
	}
	return &b
}

func kept(windows []book.Window, drop func(book.Window) bool) []book.Window {
	var left []book.Window
	long := false
	for _, w := range windows {
		if !drop(w) {
			left = append(left, w)
			long = long || w.Span() >= day
		}
	}
	if !long {
		return windows
	}
	return left
}
