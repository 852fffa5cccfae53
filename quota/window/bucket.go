package window

// Bucket is a token or leaky bucket: a level that every charge raises and that drains at
// a steady rate. It is for upstreams that use one. It does not bound what a trailing
// window holds: a full limit and all that drains meanwhile may be used within one.
//
// The level is exact. It counts parts of a unit so small that a whole number of them
// drains in each microsecond, and is rounded up where units are asked for.
type Bucket struct {
	drain  int64   // parts that drain in a microsecond
	unit   int64   // parts of a unit
	level  int64   // parts, at at
	at     Instant // when level was changed last
	latest Instant // the latest instant seen, at or later
}

// maxLevel is the highest level: every whole number up to it is exact in a double. A full
// bucket is at or above every possible limit.
const maxLevel = 1 << 53

// NewBucket returns an empty bucket for a spec that is [Spec.Normal].
func NewBucket(s Spec) *Bucket {
	drain, unit := s.Drain()
	return &Bucket{drain: drain, unit: unit, at: -2 * far, latest: longAgo}
}

// view returns the level at an instant that is not before at.
func (b *Bucket) view(at Instant) int64 {
	if b.level == 0 || at-b.at >= Instant(b.empties(b.level)) {
		return 0
	}
	return b.level - int64(at-b.at)*b.drain
}

// empties returns how many microseconds it takes to drain a number of parts.
func (b *Bucket) empties(parts int64) int64 { return ceilDiv(parts, b.drain) }

// move brings the level to an instant that is not before at.
func (b *Bucket) move(at Instant) {
	b.level, b.at = b.view(at), at
	b.latest = max(b.latest, at)
}

// Used implements [Window]: the level, rounded up to whole units.
func (b *Bucket) Used(at Instant) int64 { return ceilDiv(b.view(max(at, b.latest)), b.unit) }

// Fits implements [Window].
func (b *Bucket) Fits(at Instant, units, limit int64) bool {
	return fits(b.Used(at), units, limit)
}

// Take implements [Window].
func (b *Bucket) Take(at Instant, units, limit int64) bool {
	return b.Fits(at, units, limit) && b.Add(max(at, b.latest), units)
}

// Add implements [Window]. Units of the past have drained since, as far as the bucket
// knows what was in it then: it knows the level from the last change on. What is older
// counts as if it had just been added then.
func (b *Bucket) Add(at Instant, units int64) bool {
	if units > 0 {
		b.move(max(at, b.at))
		if units > (maxLevel-b.level)/b.unit {
			b.level = maxLevel
		} else {
			b.level += units * b.unit
		}
	}
	b.latest = max(b.latest, at)
	return units == 0 || b.view(b.latest) > 0
}

// Give implements [Window]. Of units that were taken a while ago, those that may have
// drained since do not come back, as if they had been the first to drain. More could come
// back if the bucket was never near empty meanwhile. But the level might then fall below
// that of the upstream, whose bucket was empty for a time because it never held them.
func (b *Bucket) Give(at, taken Instant, units int64) int64 {
	b.latest = max(b.latest, at)
	ago := int64(b.latest - taken)
	if b.level == 0 || taken > b.latest || ago >= b.empties(maxLevel) {
		return 0
	}
	return b.pull(min(units-ceilDiv(ago*b.drain, b.unit), b.view(b.latest)/b.unit))
}

// Since implements [Window]: the level, whatever the instant. What was in the bucket
// earlier has drained in part.
func (b *Bucket) Since(at, _ Instant) (int64, Instant) { return b.Used(at), at }

// Forget implements [Window].
func (b *Bucket) Forget(at Instant, units int64) int64 {
	b.latest = max(b.latest, at)
	return b.pull(min(units, b.Used(at)))
}

// pull takes units out now, and returns how many it took. A full bucket gives nothing
// back, because its level is no longer exact.
func (b *Bucket) pull(units int64) int64 {
	if units <= 0 || b.level == maxLevel {
		return 0
	}
	b.move(b.latest)
	b.level = max(b.level-units*b.unit, 0)
	return units
}

// Free implements [Window].
func (b *Bucket) Free(at Instant, units, limit int64) Instant {
	switch {
	case b.Fits(at, units, limit):
		return at
	case units > limit:
		return Never
	}
	return b.falls(at, limit-units)
}

// falls returns the first instant at which at most some units are used, if more are now.
func (b *Bucket) falls(at Instant, units int64) Instant {
	at = max(at, b.latest)
	return at + Instant(b.empties(b.view(at)-units*b.unit))
}

// Next implements [Window].
func (b *Bucket) Next(at Instant) (int64, Instant) {
	used := b.Used(at)
	if used == 0 {
		return 0, Never
	}
	next := b.falls(at, used-1)
	return used - b.Used(next), next
}

// Reset implements [Window].
func (b *Bucket) Reset(at Instant) Instant {
	if b.Used(at) == 0 {
		return at
	}
	return b.falls(at, 0)
}

// Rebase implements [Window].
func (b *Bucket) Rebase(at Instant) {
	used := b.Used(b.latest)
	b.level, b.at, b.latest = 0, -2*far, longAgo
	b.Add(at, used)
}
