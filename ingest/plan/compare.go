package plan

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
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

// compare sets the plan beside those with the sliding windows alone, and with the
// calendars alone. Where the ledger never said no, it would not have with fewer
// windows either, and the plans are the same.
func (s *scenario) compare(ctx context.Context, book *quota.Book, p *Plan) ([]Compared, error) {
	all := []Compared{p.sum(Configured), p.sum(SlidingOnly), p.sum(CalendarOnly)}
	if p.said == 0 {
		return all, nil
	}
	s.progress(time.Time{})
	other := *s
	other.progress = func(time.Time) {}
	var side sync.WaitGroup
	errs := make([]error, len(all))
	for i, drop := range []func(quota.Window) bool{1: calendar, 2: sliding} {
		if drop == nil {
			continue
		}
		side.Go(func() {
			var p *Plan
			if p, errs[i] = other.run(ctx, without(book, drop)); errs[i] == nil {
				all[i] = p.sum(all[i].Windows)
			}
		})
	}
	side.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
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
func calendar(w quota.Window) bool { return w.Span() >= day && w.Algorithm == window.ByCalendar }
func sliding(w quota.Window) bool  { return w.Span() >= day && w.Algorithm != window.ByCalendar }

// without is a book without some windows, in pools that have others in their place.
func without(book *quota.Book, drop func(quota.Window) bool) *quota.Book {
	b, u := *book, *book.Upstreams[upstream]
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

func kept(windows []quota.Window, drop func(quota.Window) bool) []quota.Window {
	var left []quota.Window
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
