package pagestore

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// enter advances a page to the instant that counts.
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
	if c.Revision > e.Page.Revision || !e.laidOut {
		shut := e.Page.Shut(e.Page.Latest)
		e.at, e.rebased = e.Page.LayOut(clock, c.Revision, c.Windows)
		e.moved = true
		if !shut {
			e.Reason = "" // of a block that is over
		}
		return
	}
	e.enter(clock)
}

// check returns what is wrong with a charge to a page, which may be a new one.
func (e *Entry) check(c *quota.Charge) error {
	if e.Page == nil {
		return c.Pool.Check()
	}
	return e.checkBook(c)
}

// checkBook compares a charge's price book with the one that laid out the page. A lower
// revision is stale. The same revision must have the same windows; only the default of a
// precision may have changed since.
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

// settleIn corrects a charge to the call's actual cost. Surplus units go back to the
// instant at which they were taken, if the page still counts them. Missing units are
// charged now. Those of a call that is counted at its end go back as a whole, and are all
// charged now.
func settleIn(e *Entry, t *Taken, atEnd bool) quota.Settlement {
	over := t.Units - t.Recorded
	if atEnd {
		over = t.Units
	}
	back := int64(0)
	if over > 0 && t.Generation == e.Page.Generation {
		back = e.Page.Give(e.at, t.At, over)
	}
	more := t.Recorded - t.Units + max(over, 0) // to charge now
	if more > 0 {
		e.Page.Add(e.at, more)
	}
	return quota.Settlement{Back: max(back-more, 0), Left: max(over, 0) - back, Charged: max(more-back, 0)}
}

// recordIn charges a page with units that are already spent. It takes negative units from
// the instant of their grant, or from the oldest ones, at most as many as the page has.
func recordIn(e *Entry, r *quota.Request) {
	switch {
	case e.Units < 0 && r.Generation != 0:
		e.Units = -e.Page.Give(e.at, window.At(r.At), -e.Units)
	case e.Units < 0:
		e.Units = -e.Page.Forget(e.at, -e.Units)
	default:
		e.Page.Add(e.At, e.Units)
	}
}

// toRecord sets the units to record in a page, and when they count: at most at the page's
// own time. Of units that count at least, these are the missing ones.
func (e *Entry) toRecord(r *quota.Request, c *quota.Charge) {
	e.At, e.Units = e.at, c.Units
	if !r.At.IsZero() && c.Units >= 0 {
		e.At = min(e.at, window.At(r.At))
	}
	if r.Generation != 0 && r.Generation != e.Page.Generation {
		e.Units = 0 // they have left, or count elsewhere
	}
	if r.AtLeast {
		since := e.At
		if !r.Since.IsZero() {
			since = min(since, window.At(r.Since))
		}
		e.Units, e.At = e.Page.Missing(e.at, e.At, since, e.Units, c.Window)
	}
}

// blockIn shuts or opens a page. The later of two blocks stands. blockIn reports whether
// the given block stands.
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

// describe returns the state of a page and does not change it. p may be nil.
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
		if units, at := window.Next(w, e.at); units > 0 {
			state.NextUnits, state.NextAt = units, at.Time()
		}
		if c.Since != 0 {
			since, at := w.Since(e.at, c.Since)
			if state.Since = since; at == window.Never { // it has left: all that counts is later
				state.Since = state.Used
			}
		}
		s.Windows = append(s.Windows, state)
	}
	return s, nil
}

// births compares pages with their births seen before, because the data may be new or an
// older copy. With a nil seen, it trusts the data.
type births struct{ seen *storekit.Births }

// expect returns the birth last seen of a pool's page. Look must call it before it reads,
// because it does not see pages written meanwhile.
func (b births) expect(p quota.Pool, now time.Time) (storekit.Birth, error) {
	if b.seen == nil || p.Key != "" {
		return storekit.Birth{}, nil
	}
	return b.seen.Expect(context.Background(), p, now) // in memory, and seldom a short read
}

// check returns a [quota.ForgottenError] if a page was lost or set back. With restore, it
// moves a page that was set back past the state seen before.
func (b births) check(e *Entry, expected storekit.Birth, now time.Time, restore bool) (err error) {
	if b.seen == nil || e.Family != nil {
		return nil
	}
	ctx := context.Background()
	found := birthOf(e.Page)
	lost := storekit.Lost(expected, found, now)
	if lost && !restore {
		if expected, _, err = b.seen.Reconsider(ctx, e.Pool, expected); err != nil {
			return err
		}
		lost = storekit.Lost(expected, found, now)
	}
	set := e.Page != nil && found.Born.Equal(expected.Born)
	switch {
	case !lost:
	case restore && set:
		e.Page.Latest = max(e.Page.Latest, window.At(expected.Latest))
		e.Page.Generation = max(e.Page.Generation, expected.Generation) + 1
	case restore:
	case set:
		return &quota.ForgottenError{Pool: e.Pool, Born: found.Latest}
	default:
		return &quota.ForgottenError{Pool: e.Pool, Born: expected.Born}
	}
	return nil
}

// remember saves the births of pages as they are in the store.
func (b births) remember(ctx context.Context, entries []*Entry) error {
	if b.seen == nil {
		return nil
	}
	for _, e := range entries {
		if e.Page == nil || e.Family != nil {
			continue
		}
		if err := b.seen.Remember(ctx, e.Pool, birthOf(e.Page)); err != nil {
			return err
		}
	}
	return nil
}

func birthOf(p *window.Page) storekit.Birth {
	if p == nil {
		return storekit.Birth{}
	}
	return storekit.Birth{
		Born: p.Born.Time(), Until: p.Expires(p.Latest).Time(), Generation: p.Generation, Latest: p.Latest.Time(),
	}
}
