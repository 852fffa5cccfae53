package quota

import (
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// What stores that keep pages in Go have in common. A store that decides
// elsewhere, as redisstore does in Lua, follows the same rules by its own means;
// the package storetest holds them together.

// CheckBook tells a charge whose price book is not the one that laid out the
// page: a lower revision is stale, the same one must have the same windows. Only the
// default of a precision may have changed since.
func CheckBook(c *Charge, p *window.Page) error {
	switch {
	case c.Revision < p.Revision:
		return &StaleBookError{Pool: c.Pool, Revision: c.Revision, Stored: p.Revision}
	case c.Revision == p.Revision && !p.LaidOut(c.Windows) && !p.FormerDefault(c.Windows):
		return OtherWindows(c)
	}
	return nil
}

// LayOut makes a page ready for a charge: it lays a new one out if there is
// none, and again if the price book has a higher revision, or if the page has the
// former default of a precision.
func LayOut(clock time.Time, c *Charge, p *window.Page) (*window.Page, error) {
	now := window.At(clock)
	if p == nil {
		return window.NewPage(now, c.Revision, c.Windows), nil
	}
	if err := CheckBook(c, p); err != nil {
		return nil, err
	}
	p.Rebased = false
	if c.Revision > p.Revision || !p.LaidOut(c.Windows) {
		at, rebased := p.Now(now)
		p.LayOut(at, c.Revision, c.Windows)
		p.Rebased = rebased // for the verdict to tell
	}
	return p, nil
}

// Taken is what a receipt says of one charge.
type Taken struct {
	Units      int64
	At         window.Instant // when it counted
	Generation int64          // of the page then
}

// SettleIn corrects a charge to what the call really cost: units too many go back
// to where they were taken, if the page still knows it; units too few are
// charged now.
func SettleIn(p *window.Page, clock time.Time, t Taken, units int64) Settlement {
	now, _ := p.Now(window.At(clock))
	switch over := t.Units - units; {
	case over > 0 && t.Generation == p.Generation:
		back := p.Give(now, t.At, over)
		return Settlement{Back: back, Left: over - back}
	case over > 0:
		return Settlement{Left: over}
	case over < 0:
		p.Add(now, -over)
		return Settlement{Charged: -over}
	}
	return Settlement{}
}

// Released reports whether a reservation was settled to nothing. Its id is free
// again: the call never left, and another try is charged as if it were the first.
func Released(units []int64) bool {
	for _, u := range units {
		if u != 0 {
			return false
		}
	}
	return true
}

// Add sums up the settlements of several charges.
func (s *Settlement) Add(t Settlement) {
	s.Back += t.Back
	s.Left += t.Left
	s.Charged += t.Charged
}

// RecordIn charges a page with what is already gone, at a time that is not after
// its own. It returns the instant at which it counted, and what it recorded: negative
// units are taken from the oldest, and no more than the page has.
func RecordIn(p *window.Page, clock, at time.Time, units int64) (counted window.Instant, recorded int64) {
	now, _ := p.Now(window.At(clock))
	if units < 0 {
		return now, -p.Forget(now, -units)
	}
	if past := window.At(at); !at.IsZero() && past < now {
		now = past
	}
	p.Add(now, units)
	return now, units
}

// BlockIn shuts or opens a page. The later of two blocks stands; BlockIn reports
// whether this one does.
func BlockIn(p *window.Page, clock time.Time, b BlockRequest) bool {
	now, _ := p.Now(window.At(clock))
	if b.Open {
		p.Blocked, p.Latest = 0, now
		return true
	}
	until := window.At(b.Until)
	if b.For > 0 {
		until = window.At(clock).Add(b.For)
	}
	if until <= now || p.Shut(now) && until <= p.Blocked {
		return false
	}
	p.Blocked = 0
	p.Block(now, until)
	return true
}

// Describe says what a page holds and changes nothing; p may be nil.
func Describe(clock time.Time, c *Charge, p *window.Page) (PageState, error) {
	s := PageState{Pool: c.Pool, Now: clock, Known: p != nil}
	var err error
	if p != nil {
		p = p.Clone()
	}
	if p, err = LayOut(clock, c, p); err != nil {
		return PageState{}, err
	}
	now, _ := p.Now(window.At(clock))
	s.Revision = p.Revision
	if s.Known {
		s.Born = p.Born.Time()
	}
	if p.Shut(now) {
		s.Blocked = p.Blocked.Time()
	}
	for i, w := range p.Windows() {
		state := WindowState{Window: c.Windows[i].Name, Limit: c.Windows[i].Limit, Used: w.Used(now), ResetAt: w.Reset(now).Time()}
		if units, at := w.Next(now); units > 0 {
			state.NextUnits, state.NextAt = units, at.Time()
		}
		s.Windows = append(s.Windows, state)
	}
	return s, nil
}
