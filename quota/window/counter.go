package window

// Counter is the two-counter estimate: what the previous fixed window counted,
// weighted by how much of it the sliding window still overlaps, plus what the
// current one has counted. It needs two numbers, and it is an ESTIMATE: it takes
// the previous window's load to have been even, so a burst late in one window
// and another early in the next admit up to twice the limit.
type Counter struct {
	per     int64 // length of a fixed window
	steps   int64 // the overlap is rounded up to a whole number of these
	index   int64 // the current fixed window
	end     Instant
	prev    int64
	current int64
}

// NewCounter returns an empty counter for a spec that is [Spec.Normal].
func NewCounter(s Spec) *Counter {
	return &Counter{per: s.Per.Microseconds(), steps: s.steps(), end: longAgo}
}

func (c *Counter) advance(at Instant) {
	if at < c.end {
		return
	}
	index := floorDiv(int64(at), c.per)
	if c.end != longAgo && index == c.index+1 {
		c.prev = c.current
	} else {
		c.prev = 0
	}
	c.current = 0
	c.enter(index)
}

func (c *Counter) enter(index int64) {
	c.index = index
	c.end = Instant((index + 1) * c.per)
}

// step is the length of one step of the overlap.
func (c *Counter) step() int64 { return c.per / c.steps }

// overlap is how many steps of the previous window still count. A clock behind
// the current window sees all of it.
func (c *Counter) overlap(at Instant) int64 {
	return min(ceilDiv(int64(c.end-at), c.step()), c.steps)
}

// Used implements [Window]: the estimate, rounded up.
func (c *Counter) Used(at Instant) int64 {
	c.advance(at)
	return ceilDiv(c.prev*c.overlap(at), c.steps) + c.current
}

// Fits implements [Window].
func (c *Counter) Fits(at Instant, units, limit int64) bool {
	return fits(c.Used(at), units, limit)
}

// Take implements [Window].
func (c *Counter) Take(at Instant, units, limit int64) bool {
	if !c.Fits(at, units, limit) {
		return false
	}
	c.current += units
	return true
}

// Add implements [Window].
func (c *Counter) Add(at Instant, units int64) bool {
	c.advance(at)
	side := c.side(at)
	if side == nil {
		return false
	}
	*side = min(*side+units, maxBucket)
	return true
}

// side returns the counter in which an instant counts.
func (c *Counter) side(at Instant) *int64 {
	switch start := c.end - Instant(c.per); {
	case at >= start:
		return &c.current
	case at >= start-Instant(c.per):
		return &c.prev
	}
	return nil
}

// Give implements [Window].
func (c *Counter) Give(at, taken Instant, units int64) int64 {
	c.advance(at)
	side := c.side(taken)
	if side == nil || taken >= c.end || *side == maxBucket {
		return 0
	}
	units = min(units, *side)
	*side -= units
	return units
}

// Forget implements [Window].
func (c *Counter) Forget(at Instant, units int64) {
	c.advance(at)
	for _, side := range []*int64{&c.prev, &c.current} {
		n := min(units, *side)
		*side -= n
		units -= n
	}
}

// Free implements [Window].
func (c *Counter) Free(at Instant, units, limit int64) Instant {
	if c.Fits(at, units, limit) {
		return at
	}
	if units > limit {
		return Never
	}
	if room := limit - units - c.current; room >= 0 {
		// the previous window counts for little enough before this one ends
		return c.end - Instant(room*c.steps/c.prev*c.step())
	}
	// in the next window, where what is current now is the previous one
	room := limit - units
	return c.end + Instant(c.per-min(room*c.steps/c.current, c.steps)*c.step())
}

// Next implements [Window]. An estimate decays by the step, not in lumps.
func (c *Counter) Next(at Instant) (int64, Instant) {
	used := c.Used(at)
	if used == 0 {
		return 0, Never
	}
	free := c.Free(at, 1, used) // one unit less than now
	return used - c.peek(free), free
}

// peek is the estimate at a later instant, without going there.
func (c *Counter) peek(at Instant) int64 {
	then := *c
	return then.Used(at)
}

// Reset implements [Window].
func (c *Counter) Reset(at Instant) Instant {
	switch c.advance(at); {
	case c.current > 0:
		return c.end + Instant(c.per)
	case c.prev > 0:
		return c.end
	}
	return at
}

// Rebase implements [Window].
func (c *Counter) Rebase(at Instant) {
	c.current = min(c.prev+c.current, maxBucket)
	c.prev = 0
	c.enter(floorDiv(int64(at), c.per))
}
