package pagestore

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// enter brings a page to the instant that counts.
func (e *Entry) enter(clock window.Instant) {
	e.at, e.rebased = e.Page.Now(clock)
	e.moved = e.rebased
}

// layOut is enter for a charge. It lays out a new page. It lays a page out again if the
// price book has a higher revision, or if the page has the former default precision.
// The caller has checked the book.
func (e *Entry) layOut(clock window.Instant, c *quota.Charge) {
	if e.Page == nil {
		e.at, e.rebased, e.moved = clock, false, false
		e.Page = window.NewPage(e.at, c.Revision, c.Windows)
		return
	}
	e.enter(clock)
	if c.Revision > e.Page.Revision || !e.laidOut {
		rebased := e.rebased
		e.Page.LayOut(e.at, c.Revision, c.Windows)
		e.enter(clock) // it may be too far ahead for the windows that it has now
		e.rebased, e.moved = e.rebased || rebased, true
	}
}

// check says what is wrong with a charge to a page, or to one that is to be made.
func (e *Entry) check(c *quota.Charge) error {
	if e.Page == nil {
		return c.Pool.Check()
	}
	return e.checkBook(c)
}

// checkBook tells a charge whose price book is not the one that laid out the page:
// a lower revision is stale, the same one must have the same windows. Only the
// default of a precision may have changed since.
func (e *Entry) checkBook(c *quota.Charge) error {
	p := e.Page
	e.laidOut = p.LaidOut(c.Windows)
	switch {
	case c.Revision < p.Revision:
		return &quota.StaleBookError{Pool: c.Pool, Revision: c.Revision, Stored: p.Revision}
	case c.Revision == p.Revision && !e.laidOut && !p.FormerDefault(c.Windows):
		return storekit.OtherWindows(c)
	}
	return nil
}

// settleIn corrects a charge to what the call really cost: units too many go back
// to where they were taken, if the page still knows it; units too few are charged
// now.
func settleIn(e *Entry, t *Taken) quota.Settlement {
	switch over := t.Units - t.Recorded; {
	case over > 0 && t.Generation == e.Page.Generation:
		back := e.Page.Give(e.at, t.At, over)
		return quota.Settlement{Back: back, Left: over - back}
	case over > 0:
		return quota.Settlement{Left: over}
	case over < 0:
		e.Page.Add(e.at, -over)
		return quota.Settlement{Charged: -over}
	}
	return quota.Settlement{}
}

// recordIn charges a page with what is already gone, at a time that is not after
// its own. Negative units are taken from the oldest, and no more than the page has.
func recordIn(e *Entry, at time.Time, units int64) {
	e.At, e.Units = e.at, units
	if units < 0 {
		e.Units = -e.Page.Forget(e.at, -units)
		return
	}
	if !at.IsZero() {
		e.At = min(e.at, window.At(at))
	}
	e.Page.Add(e.At, units)
}

// blockIn shuts or opens a page. The later of two blocks stands; blockIn reports
// whether this one does.
func blockIn(e *Entry, clock window.Instant, b *quota.BlockRequest) bool {
	p := e.Page
	if b.Open {
		p.Blocked, p.Latest = 0, e.at
		return true
	}
	until := window.At(b.Until)
	if b.For > 0 {
		until = clock.Add(b.For)
	}
	if until <= e.at || p.Shut(e.at) && until <= p.Blocked {
		return false
	}
	p.Blocked = 0
	p.Block(e.at, until)
	return true
}

// describe says what a page holds and changes nothing; p may be nil.
func describe(clock time.Time, c *quota.Charge, p *window.Page) (quota.PageState, error) {
	s := quota.PageState{Pool: c.Pool, Now: clock, Known: p != nil}
	e := Entry{}
	if p != nil {
		e.Page, s.Born = p.Clone(), p.Born.Time()
		if err := e.checkBook(c); err != nil {
			return quota.PageState{}, err
		}
	}
	e.layOut(window.At(clock), c)
	s.Revision = e.Page.Revision
	if e.Page.Shut(e.at) {
		s.Blocked = e.Page.Blocked.Time()
	}
	for i, w := range e.Page.Windows() {
		state := quota.WindowState{
			Window: c.Windows[i].Name, Limit: c.Windows[i].Limit, Used: w.Used(e.at), ResetAt: w.Reset(e.at).Time(),
		}
		if units, at := w.Next(e.at); units > 0 {
			state.NextUnits, state.NextAt = units, at.Time()
		}
		s.Windows = append(s.Windows, state)
	}
	return s, nil
}
