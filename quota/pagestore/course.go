package pagestore

import (
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// Course follows a clock that may leap ahead and later be set back. Its Proven instant is
// the latest that the clock has reached without a leap. Data that is too old by then can
// be removed. Data that is old only because of a leap must stay.
//
// A quiet hour looks like a leap. So Course trusts the clock an hour after a leap. After
// a leap of more than a month it waits as long again. The zero value is ready for use.
type Course struct {
	Called window.Instant // what the clock last showed
	Leapt  window.Instant // where it was found after a leap; 0: it did not leap
	Proven window.Instant
}

const (
	// leap is a jump of the clock after which it may be set back.
	leap = time.Minute
	// believed is how long after a leap the clock is taken for right, if it was not
	// far.
	believed = time.Hour
	far      = 31 * 24 * time.Hour
	// coarse is how exactly Called has to be written down: each time would be too
	// often.
	coarse = leap / 2
)

// See notes what the clock shows, and returns up to when it has certainly come, how
// long ago it was last seen, and whether that must be written down.
func (c *Course) See(now window.Instant) (proven window.Instant, quiet time.Duration, changed bool) {
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

// rest is how long after a leap nothing is forgotten that became old by it.
func (c *Course) rest() time.Duration {
	if by := c.Leapt.Sub(c.Proven); by > far {
		return by
	}
	return believed
}
