package window

// Counter is the two-counter estimate: what the previous fixed window counted,
// weighted by how much of it the sliding window still overlaps, plus what the
// current one has counted. It needs two numbers, and it is an ESTIMATE: it takes
// the previous window's load to have been even, so a burst late in one window
// and another early in the next admit up to twice the limit.
type Counter struct {
	per     int64   // length of a fixed window
	steps   int64   // the overlap is rounded up to a whole number of these
	end     Instant // of the current fixed window
	latest  Instant
	prev    int64
	current int64
}

// NewCounter returns an empty counter for a spec that is [Spec.Normal].
func NewCounter(s Spec) *Counter {
	return &Counter{per: s.Per.Microseconds(), steps: s.steps(), end: longAgo, latest: longAgo}
}

func (c *Counter) advance(at Instant) {
	c.latest = max(c.latest, at)
	if at < c.end {
		return
	}
	last := c.end
	c.enter(floorDiv(int64(at), c.per))
	if last != longAgo && c.end == last+Instant(c.per) {
		c.prev = c.current
	} else {
		c.prev = 0
	}
	c.current = 0
}

// enter begins a fixed window, counted from 1970.
func (c *Counter) enter(index int64) { c.end = Instant((index + 1) * c.per) }

// index returns the number of the current fixed window.
func (c *Counter) index() int64 { return int64(c.end)/c.per - 1 }

// view returns a copy of the counter advanced to an instant. It does not change
// c.
func (c *Counter) view(at Instant) (now Counter) {
	now = *c
	now.advance(at)
	return now
}

// step returns the length of one step of the overlap.
func (c *Counter) step() int64 { return c.per / c.steps }

// Used implements [Window]: the estimate, rounded up.
func (c *Counter) Used(at Instant) int64 {
	if at = max(at, c.latest); at < c.end {
		return c.estimate(at)
	}
	now := c.view(at)
	return now.estimate(at)
}

// estimate returns the estimate at an instant in the current window.
func (c *Counter) estimate(at Instant) int64 {
	if c.prev == 0 {
		return c.current
	}
	overlap := ceilDiv(int64(c.end-at), c.step())
	return ceilDiv(c.prev*overlap, c.steps) + c.current
}

func (c *Counter) Take(at Instant, units, limit int64) bool {
	return fits(c.Used(at), units, limit) && c.Add(max(at, c.latest), units)
}

func (c *Counter) Add(at Instant, units int64) bool {
	c.advance(at)
	side := c.side(at)
	if side == nil {
		return false
	}
	fill(side, units, maxCounter)
	return true
}

// side returns the counter in which an instant before end counts.
func (c *Counter) side(at Instant) *int64 {
	switch start := c.end - Instant(c.per); {
	case at >= start:
		return &c.current
	case at >= start-Instant(c.per):
		return &c.prev
	}
	return nil
}

func (c *Counter) Give(at, taken Instant, units int64) int64 {
	c.advance(at)
	if taken >= c.end {
		return 0
	}
	side := c.side(taken)
	if side == nil {
		return 0
	}
	return drain(side, units, maxCounter)
}

// Since implements [Window]. Two numbers do not tell when in them: both count in full.
func (c *Counter) Since(at, from Instant) (int64, Instant) {
	at = max(at, c.latest)
	if from = min(from, at); from+Instant(c.per) <= at {
		return 0, Never
	}
	now := c.view(at)
	return now.prev + now.current, from
}

func (c *Counter) Forget(at Instant, units int64) int64 {
	c.advance(at)
	given := drain(&c.prev, units, maxCounter)
	return given + drain(&c.current, units-given, maxCounter)
}

func (c *Counter) Free(at Instant, units, limit int64) Instant {
	now := c.view(at)
	switch {
	case fits(now.Used(at), units, limit):
		return at
	case units > limit:
		return Never
	}
	room := limit - units
	if left := room - now.current; left >= 0 {
		// the previous window counts for little enough before this one ends
		return now.end - Instant(left*now.steps/now.prev*now.step())
	}
	// in the next window, where what is current now is the previous one
	return now.end + Instant(now.per-room*now.steps/now.current*now.step())
}

func (c *Counter) Reset(at Instant) Instant {
	switch now := c.view(at); {
	case now.current > 0:
		return now.end + Instant(now.per)
	case now.prev > 0:
		return now.end
	}
	return at
}

func (c *Counter) reset() {
	*c = Counter{per: c.per, steps: c.steps, end: longAgo, latest: longAgo}
}
