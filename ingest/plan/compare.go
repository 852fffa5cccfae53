package plan

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// Compared is the sum of a plan of the same schedule with other windows.
type Compared struct {
	Windows  string           `json:"windows"`
	Units    map[string]int64 `json:"units"`    // by pool
	Deferred int              `json:"deferred"` // number of times that work was deferred
	Refused  int64            `json:"refused"`  // number of calls that the upstream itself refused
}

// The windows to compare.
const (
	Configured   = "as configured"
	SlidingOnly  = "sliding only"
	CalendarOnly = "calendar only"
)

// alternatives are the plans with sliding windows only and with calendars only. They are
// made beside the configured plan, from its first refusal on. Without a refusal they equal
// the configured plan, because fewer windows refuse no more.
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
		a.side.Go(func() { a.plans[i], a.errs[i] = a.run(a.ctx, dropWindows(a.book, drop)) })
	}
}

// compare waits for the alternatives and compares the plan with them.
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

// calendar and sliding report whether a window of that kind limits a day or more. Shorter
// windows always stay, because they protect against something else.
func calendar(w book.Window) bool { return w.Span() >= day && w.Calendar() }
func sliding(w book.Window) bool  { return w.Span() >= day && !w.Calendar() }

// dropWindows returns a book without some windows. A pool keeps its windows if it has no
// other one of a day or more.
func dropWindows(costs *quota.Book, drop func(book.Window) bool) *quota.Book {
	b := *costs
	b.Upstreams = maps.Clone(b.Upstreams)
	for of, was := range b.Upstreams {
		u := *was
		u.Pools = maps.Clone(u.Pools)
		for name, pool := range u.Pools {
			a := *pool
			a.Windows = keepWindows(a.Windows, drop)
			a.Accounts = maps.Clone(a.Accounts)
			for account, windows := range a.Accounts {
				a.Accounts[account] = keepWindows(windows, drop)
			}
			u.Pools[name] = &a
		}
		b.Upstreams[of] = &u
	}
	return &b
}

func keepWindows(windows []book.Window, drop func(book.Window) bool) []book.Window {
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
