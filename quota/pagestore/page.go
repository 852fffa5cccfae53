package pagestore

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// enter brings a page to the instant that counts.
func (e *Entry) enter(clock time.Time) {
	e.at, e.rebased = e.Page.Now(window.At(clock))
	e.moved = e.rebased
}

// layOut is enter for a charge: it lays out a page if there is none, and again if
// the price book has a higher revision, or if the page has the former default of a
// precision. The book was checked.
func (e *Entry) layOut(clock time.Time, c *quota.Charge) {
	if e.Page == nil {
		e.at, e.rebased, e.moved = window.At(clock), false, false
		e.Page = window.NewPage(e.at, c.Revision, c.Windows)
		return
	}
	e.enter(clock)
	if c.Revision > e.Page.Revision || !e.Page.LaidOut(c.Windows) {
		rebased := e.rebased
		e.Page.LayOut(e.at, c.Revision, c.Windows)
		e.enter(clock) // it may be too far ahead for the windows that it has now
		e.rebased, e.moved = e.rebased || rebased, true
	}
}

// checkBook tells a charge whose price book is not the one that laid out the page:
// a lower revision is stale, the same one must have the same windows. Only the
// default of a precision may have changed since.
func checkBook(c *quota.Charge, p *window.Page) error {
	switch {
	case c.Revision < p.Revision:
		return &quota.StaleBookError{Pool: c.Pool, Revision: c.Revision, Stored: p.Revision}
	case c.Revision == p.Revision && !p.LaidOut(c.Windows) && !p.FormerDefault(c.Windows):
		return quota.OtherWindows(c)
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
// its own. It returns the instant at which it counted, and what it recorded: negative
// units are taken from the oldest, and no more than the page has.
func recordIn(e *Entry, at time.Time, units int64) (counted window.Instant, recorded int64) {
	if units < 0 {
		return e.at, -e.Page.Forget(e.at, -units)
	}
	counted = e.at
	if !at.IsZero() {
		counted = min(counted, window.At(at))
	}
	e.Page.Add(counted, units)
	return counted, units
}

// blockIn shuts or opens a page. The later of two blocks stands; blockIn reports
// whether this one does.
func blockIn(e *Entry, clock time.Time, b *quota.BlockRequest) bool {
	p := e.Page
	if b.Open {
		p.Blocked, p.Latest = 0, e.at
		return true
	}
	until := window.At(b.Until)
	if b.For > 0 {
		until = window.At(clock).Add(b.For)
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
		if err := checkBook(c, p); err != nil {
			return quota.PageState{}, err
		}
		e.Page, s.Born = p.Clone(), p.Born.Time()
	}
	e.layOut(clock, c)
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
