package window

// Calendar counts what is used in the present period of a calendar. A charge
// within lag of a boundary counts on both of its sides, because nobody can say
// on which one the upstream will count it.
type Calendar struct {
	spec  Spec
	lag   Instant
	start Instant // the present period
	end   Instant
	used  int64 // in the present period
	prev  int64 // in the one before; decides until start+lag
	next  int64 // in the one to come: charges since end-lag; never above used
}

// NewCalendar returns an empty calendar window for a spec that is [Spec.Normal].
func NewCalendar(s Spec) *Calendar {
	return &Calendar{spec: s, lag: s.lag(), start: longAgo, end: longAgo}
}

// advance changes the period once the stored one has ended, never before.
func (c *Calendar) advance(at Instant) {
	if at < c.end {
		return
	}
	start, end := c.spec.Bounds(at)
	if start == c.end {
		c.prev, c.used = c.used, c.next
	} else {
		c.prev, c.used = 0, 0
	}
	c.next = 0
	c.start, c.end = start, end
}

// Used implements [Window].
func (c *Calendar) Used(at Instant) int64 {
	c.advance(at)
	if at < c.start+c.lag {
		return max(c.used, c.prev)
	}
	return c.used
}

// Fits implements [Window].
func (c *Calendar) Fits(at Instant, units, limit int64) bool {
	return fits(c.Used(at), units, limit)
}

// Take implements [Window].
func (c *Calendar) Take(at Instant, units, limit int64) bool {
	return c.Fits(at, units, limit) && c.Add(max(at, c.start), units)
}

// Add implements [Window].
func (c *Calendar) Add(at Instant, units int64) bool {
	c.advance(at)
	for _, n := range c.sides(at) {
		if n != nil {
			*n += units
		}
	}
	return at >= c.start-c.lag
}

// sides returns the counters in which an instant counts: those of the periods
// that begin at most lag after it and end at most lag before it.
func (c *Calendar) sides(at Instant) (sides [3]*int64) {
	if at < c.start+c.lag && c.holdsPrev(at) {
		sides[0] = &c.prev
	}
	if at >= c.start-c.lag && at < c.end+c.lag {
		sides[1] = &c.used
	}
	if at >= c.end-c.lag {
		sides[2] = &c.next
	}
	return sides
}

// holdsPrev reports whether at, which is before start+lag, is late enough to
// count in the period before.
func (c *Calendar) holdsPrev(at Instant) bool {
	if at >= c.start {
		return true
	}
	from, _ := c.spec.Bounds(c.start - 1)
	return at >= from-c.lag
}

// Give implements [Window].
func (c *Calendar) Give(at, taken Instant, units int64) int64 {
	c.advance(at)
	if taken >= c.end {
		return 0
	}
	var given int64
	for i, n := range c.sides(taken) {
		if n == nil {
			continue
		}
		back := min(units, *n)
		*n -= back
		if i == 1 {
			given = back
		}
	}
	c.next = min(c.next, c.used)
	return given
}

// Forget implements [Window].
func (c *Calendar) Forget(at Instant, units int64) {
	c.advance(at)
	c.used -= min(units, c.used)
	c.prev -= min(units, c.prev)
	c.next = min(c.next, c.used)
}

// Free implements [Window].
func (c *Calendar) Free(at Instant, units, limit int64) Instant {
	switch {
	case c.Fits(at, units, limit):
		return at
	case units > limit:
		return Never
	case fits(c.used, units, limit):
		return c.start + c.lag // only the period before is full
	case fits(c.next, units, limit):
		return c.end + c.lag
	}
	_, end := c.spec.Bounds(c.end)
	return end + c.lag
}

// Next implements [Window].
func (c *Calendar) Next(at Instant) (int64, Instant) {
	if c.Used(at) == 0 {
		return 0, Never
	}
	if at < c.start+c.lag && c.prev > c.used {
		return c.prev - c.used, c.start + c.lag
	}
	return c.used - c.next, c.end + c.lag
}

// Reset implements [Window].
func (c *Calendar) Reset(at Instant) Instant {
	c.advance(at)
	return c.end
}

// Rebase implements [Window].
func (c *Calendar) Rebase(at Instant) {
	used := c.used
	c.start, c.end = c.spec.Bounds(at)
	c.used, c.prev, c.next = 0, 0, 0
	c.Add(at, used)
}
