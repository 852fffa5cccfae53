package server

import (
	"fmt"
	"time"
)

// Kind is a way to count.
type Kind int

const (
	// Fixed windows follow each other without a gap. All units return at once.
	Fixed Kind = iota
	// Sliding windows are the last Per at any instant, exact to the nanosecond.
	Sliding
	// Bucket is a token bucket of Quota units (or Burst) that refills with Quota in Per.
	Bucket
)

func (k Kind) String() string { return [...]string{"fixed", "sliding", "bucket"}[k] }

// Limit is what a server grants.
type Limit struct {
	Kind  Kind
	Quota int64
	Per   time.Duration
	Phase time.Duration // of fixed windows: how far into a window the server starts
	Lazy  bool          // fixed windows open with the first unit, as GitHub's do
	Burst int64         // of a bucket; 0 is Quota
}

func (l Limit) String() string { return fmt.Sprintf("%d in %s, %s", l.Quota, l.Per, l.Kind) }

// most is how many units can count at an instant.
func (l Limit) most() int64 {
	if l.Kind == Bucket && l.Burst > 0 {
		return l.Burst
	}
	return l.Quota
}

// Oracle returns the most that callers with perfect knowledge get within a time. It
// leaves out what a server grants only once: the window that had begun before the first
// call, and a bucket's first filling, unless that is above the quota.
func (l Limit) Oracle(span time.Duration) int64 {
	sustained := int64(float64(l.Quota) * span.Seconds() / l.Per.Seconds())
	return sustained + l.most() - l.Quota
}

// counter counts units against a limit. It is not safe for concurrent use.
type counter struct {
	Limit
	start time.Time // of the server
	began time.Time // of the fixed window
	fixed int64     // used in it
	log   []spent   // of a sliding window, oldest first
	sum   int64     // of log
	level int64     // of a bucket: used units times Per in microseconds
	at    time.Time // of level

	total int64 // charged since the start, less what was given back
	worst int64 // the most that ever counted at once
}

type spent struct {
	at    time.Time
	units int64
}

func newCounter(l Limit, now time.Time) *counter {
	c := &counter{Limit: l, start: now, began: now.Add(-l.Phase), at: now}
	if l.Lazy {
		c.began = time.Time{}
	}
	return c
}

func (c *counter) per() int64 { return c.Per.Microseconds() }

// advance forgets what counts no longer.
func (c *counter) advance(now time.Time) {
	switch c.Kind {
	case Fixed:
		if now.Sub(c.began) < c.Per {
			return
		}
		if c.fixed = 0; c.Lazy {
			c.began = time.Time{}
		} else {
			c.began = c.began.Add(now.Sub(c.began) / c.Per * c.Per)
		}
	case Sliding:
		i := 0
		for ; i < len(c.log) && now.Sub(c.log[i].at) >= c.Per; i++ {
			c.sum -= c.log[i].units
		}
		c.log = c.log[i:]
	case Bucket:
		leaked := now.Sub(c.at).Microseconds()
		c.at = c.at.Add(time.Duration(leaked) * time.Microsecond)
		c.level = max(0, c.level-leaked*c.Quota)
	}
}

// used returns the units that count now.
func (c *counter) used(now time.Time) int64 {
	c.advance(now)
	switch c.Kind {
	case Fixed:
		return c.fixed
	case Sliding:
		return c.sum
	}
	return (c.level + c.per() - 1) / c.per()
}

// left returns the units that can be taken now. It is below zero after an overrun.
func (c *counter) left(now time.Time) int64 { return c.most() - c.used(now) }

// add counts units, whether they fit or not.
func (c *counter) add(now time.Time, units int64) {
	c.advance(now)
	switch c.Kind {
	case Fixed:
		if c.began.IsZero() && units > 0 {
			c.began = now
		}
		c.fixed += units
	case Sliding:
		c.log = append(c.log, spent{now, units})
		c.sum += units
	case Bucket:
		c.level += units * c.per()
	}
	c.total += units
	c.worst = max(c.worst, c.used(now))
}

// give takes back units that were added at an instant.
func (c *counter) give(now, at time.Time, units int64) {
	c.advance(now)
	c.total -= units
	switch c.Kind {
	case Fixed:
		if !c.began.IsZero() && !at.Before(c.began) {
			c.fixed -= units
		}
	case Sliding:
		for i := range c.log {
			if c.log[i].at.Equal(at) && c.log[i].units >= units {
				c.log[i].units -= units
				c.sum -= units
				return
			}
		}
	case Bucket:
		c.level = max(0, c.level-units*c.per())
	}
}

// wait returns how long it takes until units fit, if nobody takes any meanwhile.
func (c *counter) wait(now time.Time, units int64) time.Duration {
	missing := units - c.left(now)
	if missing <= 0 {
		return 0
	}
	switch c.Kind {
	case Fixed:
		return c.began.Add(c.Per).Sub(now)
	case Sliding:
		for _, s := range c.log {
			if missing -= s.units; missing <= 0 {
				return s.at.Add(c.Per).Sub(now)
			}
		}
		return c.Per
	}
	over := c.level + (units-c.most())*c.per()
	return time.Duration((over+c.Quota-1)/c.Quota) * time.Microsecond
}

// full returns how long it takes until nothing counts.
func (c *counter) full(now time.Time) time.Duration {
	if c.used(now) == 0 && !(c.Kind == Fixed && !c.began.IsZero()) {
		return 0
	}
	switch c.Kind {
	case Fixed:
		return c.began.Add(c.Per).Sub(now)
	case Sliding:
		return c.log[len(c.log)-1].at.Add(c.Per).Sub(now)
	}
	return time.Duration((c.level+c.Quota-1)/c.Quota) * time.Microsecond
}
