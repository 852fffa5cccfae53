package pagestore

import (
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// A member is the page of a key, in a family or in a keyed pool. Members of families take no
// receipts and leave no spend. An idle member is forgotten. When
// there are too many, new keys share one page, so that an attacker gains nothing by
// inventing keys.

// member finds the page of a key. The page is the key's own, a new one, or, if the family
// is full, the page that new keys share.
func (w *work) member(tx Tx, c *quota.Charge) (*Entry, error) {
	f, err := tx.Family(&c.Pool)
	if err != nil {
		return nil, err
	}
	if err := w.forgetIdle(tx, f); err != nil {
		return nil, err
	}
	e, err := tx.Member(f, c.Pool.Key)
	if err != nil {
		return nil, err
	}
	if err := e.check(c); err != nil { // also of a key that will share a page
		return nil, err
	}
	e.Family, e.known, e.overflow = f, e.Page != nil, false
	if e.known || c.MaxKeys == 0 || f.Members < c.MaxKeys {
		return e, nil
	}
	if err := w.makeRoom(tx, f, c.MaxKeys); err != nil || f.Members < c.MaxKeys {
		return e, err
	}
	if e, err = tx.Member(f, ""); err != nil {
		return nil, err
	}
	e.Family, e.known, e.overflow = f, e.Page != nil, true
	return e, e.check(c)
}

// putMember stores a member and corrects the family's count of members. The count leaves
// out members that the price book lists, so that they take no place from others. Without
// a charge, the member keeps its place.
func (w *work) putMember(tx Tx, e *Entry, c *quota.Charge) error {
	f := e.Family
	counted := f.Members
	if c != nil {
		listed := c.MaxKeys == 0
		switch {
		case e.overflow:
		case !listed && (!e.known || e.Listed):
			f.Members++
		case listed && e.known && !e.Listed:
			f.Members--
		}
		e.Listed = listed
	} else if e.again && e.Pool.Key != "" {
		f.Members++
	}
	e.again = false
	if err := w.wrote(tx.Put(e, c)); err != nil || f.Members == counted {
		return err
	}
	return w.wrote(tx.PutFamily(f))
}

const (
	// atOnce bounds the members that one call drops. Dropping all of them would take long.
	atOnce = 256
	// pause is the time between searches for idle members after the oldest was not idle.
	pause = 10 * time.Millisecond
)

// makeRoom drops the members that were charged longest ago, if they are idle by the clock, until
// there is room for one: there may be more than the most. It does so even after a leap of the
// clock, so that the new key gets its place.
func (w *work) makeRoom(tx Tx, f *Family, most int) error {
	if err := w.rebaseAhead(tx, f); err != nil {
		return err
	}
	had := f.Members
	for range atOnce {
		if dropped, err := w.dropIdle(tx, f, w.now, (*window.Page).Yields); err != nil {
			return err
		} else if !dropped || f.Members < most {
			break
		}
	}
	if f.Members == had {
		return nil
	}
	return w.wrote(tx.PutFamily(f))
}

// rebaseAhead re-bases at most two members that are far ahead of the clock. Without it,
// members that are never called again would keep their places.
func (w *work) rebaseAhead(tx Tx, f *Family) error {
	for range 2 {
		e, err := tx.Ahead(f)
		if err != nil || e == nil {
			return err
		}
		if e.enter(w.now); !e.rebased {
			return nil
		}
		if err := w.wrote(tx.Put(e, nil)); err != nil {
			return err
		}
	}
	return nil
}

// kept returns how long a member is kept after it is idle, while there is room. A page
// of a keyed pool is kept for as long as a call can hang: settling a call to a higher
// cost charges its page.
func (f *Family) kept() time.Duration {
	if f.Pool != "" {
		return quota.ReceiptLife
	}
	return 0
}

// forgetIdle drops idle members. It drops up to two with each call, so that idle members
// go faster than new ones come. After a quiet time it drops up to one for each
// millisecond without a call.
func (w *work) forgetIdle(tx Tx, f *Family) error {
	proven, quiet, changed := f.See(w.now)
	if ago := proven.Sub(f.busy); f.busy != 0 && ago >= 0 && ago < pause && !changed {
		return nil
	}
	for range min(max(quiet/time.Millisecond, 2), atOnce) {
		dropped, err := w.dropIdle(tx, f, proven.Add(-f.kept()), (*window.Page).Idle)
		if err != nil {
			return err
		}
		if !dropped {
			f.busy = proven
			break
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return w.wrote(tx.PutFamily(f))
}

// mostHeld bounds the members that one search passes over.
const mostHeld = 4

// dropIdle drops the member that was charged longest ago if it is idle at an instant. One
// that is only held goes behind the others: they may be idle before it.
func (w *work) dropIdle(tx Tx, f *Family, at window.Instant, idle func(*window.Page, window.Instant) bool) (bool, error) {
	for range mostHeld {
		oldest, err := tx.Oldest(f)
		switch {
		case err != nil || oldest == nil:
			return false, err
		case idle(oldest.Page, at):
			f.Members--
			return true, w.wrote(tx.Drop(oldest))
		case !oldest.Page.Held(at):
			return false, nil
		}
		oldest.Behind = w.now
		if err := w.wrote(tx.Put(oldest, nil)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// Course follows a clock that may leap ahead and later be set back. Its Proven instant is
// the latest that the clock has reached without a leap. Data that is too old by then can
// be removed. Data that is old only because of a leap must stay.
//
// A quiet hour looks like a leap. So Course trusts the clock an hour after a leap. After
// a leap of more than a month it waits as long again. The zero value is ready for use.
type Course struct {
	Called window.Instant // the clock's last reading
	Leapt  window.Instant // the clock's reading after a leap; 0 if it did not leap
	Proven window.Instant
}

const (
	// leap is a jump of the clock after which it may be set back.
	leap = time.Minute
	// believed is the time after which the clock is trusted again, for a leap of at most
	// far.
	believed = time.Hour
	far      = 31 * 24 * time.Hour
	// coarse is the precision of the stored Called. Storing every reading would be too
	// much.
	coarse = leap / 2
)

// See takes a reading of the clock. It returns the latest instant that the clock has
// reached without a leap, the time since the last reading, and whether c must be stored.
func (c *Course) See(now window.Instant) (proven window.Instant, quiet time.Duration, changed bool) {
	if now == 0 {
		now = 1 // 0 is an instant that was not seen
	}
	leapt := c.Leapt
	quiet = now.Sub(c.Called)
	switch resting := leapt != 0 && now >= leapt; {
	case quiet < 0 && leapt != 0 && now > c.Proven: // it was set back by a part of the leap
		c.Leapt = min(leapt, now)
	case c.Called == 0 || quiet < 0: // the first time, or it was set back
		c.Leapt, c.Proven = 0, now
	case resting && now.Sub(leapt) < c.rest():
	case quiet > leap && resting:
		c.Leapt, c.Proven = now, leapt
	case quiet > leap:
		c.Leapt, c.Proven = now, c.Called
	default:
		c.Leapt, c.Proven = 0, now
	}
	c.Called = now
	return c.Proven, quiet, c.Leapt != leapt || quiet < 0 || quiet > coarse
}

// rest returns how long after a leap to keep data that is old only because of it.
func (c *Course) rest() time.Duration {
	if by := c.Leapt.Sub(c.Proven); by > far {
		return by
	}
	return believed
}
