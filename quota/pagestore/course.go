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
