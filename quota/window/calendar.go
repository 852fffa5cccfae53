package window

// Calendar counts what is used in the present period of a calendar. A charge
// within lag of a boundary counts on both of its sides, because nobody can say
// on which one the upstream will count it. So until lag after a boundary the
// period before it must have room too.
type Calendar struct {
	spec   Spec
	lag    Instant
	latest Instant
	start  Instant // the present period
	end    Instant
	used   int64 // in the present period
	prev   int64 // in the one before; decides until start+lag
	next   int64 // in the one to come: charges since end-lag; never above used
}

// NewCalendar returns an empty calendar window for a spec that is [Spec.Normal].
func NewCalendar(s Spec) *Calendar {
	return &Calendar{spec: s, lag: s.lag(), latest: longAgo, start: longAgo, end: longAgo}
}

// advance changes the period once the stored one has ended, never before.
func (c *Calendar) advance(at Instant) {
	c.latest = max(c.latest, at)
	if at >= c.end {
		c.turn(c.spec.Bounds(at))
	}
}

func (c *Calendar) turn(start, end Instant) {
	switch {
	case start == c.end:
		c.prev, c.used = c.used, c.next
	case start < c.end:
		// The zone's rules have changed since the period was stored. The used
		// units may belong to this period, so they stay.
		c.prev = 0
	case c.next > 0 && c.following() == start:
		c.prev, c.used = c.next, 0 // nothing was written in the period between
	default:
		c.prev, c.used = 0, 0
	}
	c.next = 0
	c.start, c.end = start, end
}

// following returns the end of the period after the present one.
func (c *Calendar) following() Instant {
	_, end := c.spec.Bounds(c.end)
	return end
}

// view returns a copy of the calendar advanced to an instant, and the later of
// that instant and the latest seen. It does not change c.
func (c *Calendar) view(at Instant) (now Calendar, _ Instant) {
	now = *c
	now.advance(at)
	return now, now.latest
}

func (c *Calendar) Used(at Instant) int64 {
	if at = max(at, c.latest); at < c.end {
		return c.count(at)
	}
	if c.used == 0 {
		return 0
	}
	now, _ := c.view(at)
	return now.count(at)
}

// count returns the units that count at an instant in the present period.
func (c *Calendar) count(at Instant) int64 {
	if at < c.start+c.lag {
		return max(c.used, c.prev)
	}
	return c.used
}

func (c *Calendar) Take(at Instant, units, limit int64) bool {
	return fits(c.Used(at), units, limit) && c.Add(max(at, c.latest), units)
}

func (c *Calendar) Add(at Instant, units int64) bool {
	c.advance(at)
	var counted bool
	if at >= c.start-c.lag {
		fill(&c.used, units, MaxUnits)
		counted = true
	}
	if at >= c.end-c.lag {
		fill(&c.next, units, MaxUnits)
	}
	if c.inPrev(at) {
		fill(&c.prev, units, MaxUnits)
		counted = true
	}
	return counted
}

// inPrev reports whether an instant counts in the previous period, and that period
// still decides.
func (c *Calendar) inPrev(at Instant) bool {
	if after := c.start + c.lag; at >= after || c.latest >= after {
		return false
	}
	if at >= c.start-c.lag {
		return true
	}
	from, _ := c.spec.Bounds(c.start - 1)
	return at >= from-c.lag
}

func (c *Calendar) Give(at, taken Instant, units int64) int64 {
	c.advance(at)
	if taken >= c.end {
		return 0
	}
	var given int64
	if taken >= c.start-c.lag {
		given = drain(&c.used, units, MaxUnits)
	}
	if taken >= c.end-c.lag {
		drain(&c.next, units, MaxUnits)
	}
	if c.inPrev(taken) {
		given = max(given, drain(&c.prev, units, MaxUnits))
	}
	c.next = min(c.next, c.used)
	return given
}

// Since implements [Window]: all of the period that from is in. Shortly before the
// period began is in it too.
func (c *Calendar) Since(at, from Instant) (int64, Instant) {
	now, at := c.view(at)
	if from = min(from, at); from < now.start-c.lag {
		return 0, Never
	}
	return now.used, max(from, now.start)
}

func (c *Calendar) Forget(at Instant, units int64) int64 {
	c.advance(at)
	given, before := drain(&c.used, units, MaxUnits), drain(&c.prev, units, MaxUnits)
	c.next = min(c.next, c.used)
	if max(at, c.latest) < c.start+c.lag { // else the period before does not count any more
		return max(given, before)
	}
	return given
}

func (c *Calendar) Free(at Instant, units, limit int64) Instant {
	if fits(c.Used(at), units, limit) {
		return at
	}
	now, _ := c.view(at)
	switch {
	case units > limit:
		return Never
	case fits(now.used, units, limit):
		return now.start + c.lag // only the period before is full
	case fits(now.next, units, limit):
		return now.end + c.lag
	}
	return now.following() + c.lag
}

func (c *Calendar) Reset(at Instant) Instant {
	now, _ := c.view(at)
	return now.end
}

// gone returns the instant from which nothing that counts now, on either side
// of a boundary, counts any more.
func (c *Calendar) gone(at Instant) Instant {
	switch now, latest := c.view(at); {
	case now.next > 0:
		return now.following() + c.lag
	case now.used > 0:
		return now.end + c.lag
	case now.count(latest) > 0:
		return now.start + c.lag
	}
	return at
}

func (c *Calendar) reset() {
	*c = Calendar{spec: c.spec, lag: c.lag, latest: longAgo, start: longAgo, end: longAgo}
}
