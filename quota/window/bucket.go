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
	now    spell   // until at
	before spell   // until now began
}

// spell is a time in which the level was never below low.
type spell struct {
	since Instant
	low   int64 // parts
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
	b.now.low = min(b.now.low, b.level)
	b.latest = max(b.latest, at)
}

// Used implements [Window]: the level, rounded up to whole units.
func (b *Bucket) Used(at Instant) int64 { return ceilDiv(b.view(max(at, b.latest)), b.unit) }

func (b *Bucket) Take(at Instant, units, limit int64) bool {
	return fits(b.Used(at), units, limit) && b.Add(max(at, b.latest), units)
}

// Add implements [Window]. Units of the past have drained since, as far as the bucket
// knows its level then: it knows the level from the last change on. Older units count as if
// they had just been added then.
func (b *Bucket) Add(at Instant, units int64) bool {
	if units > 0 {
		b.move(max(at, b.at))
		b.level += min(b.parts(units), maxLevel-b.level)
		b.begin()
	}
	b.latest = max(b.latest, at)
	return units == 0 || b.view(b.latest) > 0
}

// begin begins a spell if that promises twice as much, because [Bucket.Give] lowers the
// low of one that lasts. Units that were just added cannot have drained yet.
func (b *Bucket) begin() {
	switch {
	case b.now.since == b.at:
	case b.level-b.now.low >= b.now.low:
		b.before = b.now
	default:
		return
	}
	b.now = spell{b.at, b.level}
}

// Give implements [Window]. The level never falls below that of an upstream that takes
// the same units and drains as fast, but knows from the start, or from some instant of the
// call on, that it takes fewer.
//
// If a call takes fewer units, the level is lower by all of them from the call on. The
// difference lasts until the lower level is zero. Then it shrinks, at most by the drain. So
// after a time t the difference is at least units - t*drain. And from an instant on it stays
// what it is then, as long as the level is not below it. Give takes back the most that one
// of three ways proves: it may have shrunk until now; only until this spell began; or only
// until the one before began. If that is not all, it is as if the rest had been added now.
// That also makes it right that each call is judged by a level from which the others that
// were settled are gone: all levels of the past fall, by at most these units. Those of a
// spell that had ended before the call do not.
//
// An upstream that gives units back at the end of the call is not above that, because it
// takes them from the level of that moment.
//
// The level falls by the parts of a unit too; whole units are told.
func (b *Bucket) Give(at, taken Instant, units int64) int64 {
	b.latest = max(b.latest, at)
	level := b.view(b.latest)
	if level == 0 || taken > b.latest {
		return 0
	}
	parts, low := b.parts(units), min(b.now.low, level)
	back := max(
		parts-b.drains(b.latest-taken),
		min(parts-b.drains(b.now.since-taken), low),
		min(parts-b.drains(b.before.since-taken), low, b.before.low),
	)
	given := b.pull(min(back, level))
	if given > 0 {
		b.now.low = max(b.now.low-parts, 0)
		if taken < b.now.since {
			b.before.low = max(b.before.low-parts, 0)
		}
	}
	return given / b.unit
}

// drains returns how many parts drain in a time, at most those of a full bucket.
func (b *Bucket) drains(time Instant) int64 {
	if time >= Instant(b.empties(maxLevel)) {
		return maxLevel
	}
	return int64(max(time, 0)) * b.drain
}

// parts returns units as parts, at most those of a full bucket.
func (b *Bucket) parts(units int64) int64 {
	if units > maxLevel/b.unit {
		return maxLevel
	}
	return units * b.unit
}

// Since implements [Window]: the level, whatever the instant, because earlier units have
// drained in part.
func (b *Bucket) Since(at, _ Instant) (int64, Instant) { return b.Used(at), at }

func (b *Bucket) Forget(at Instant, units int64) int64 {
	b.latest = max(b.latest, at)
	parts := b.pull(min(b.parts(units), b.view(b.latest)))
	b.now.low, b.before.low = max(b.now.low-parts, 0), max(b.before.low-parts, 0)
	return ceilDiv(parts, b.unit)
}

// pull takes parts out now, and returns how many it took. A full bucket gives nothing
// back, because its level is no longer exact.
func (b *Bucket) pull(parts int64) int64 {
	if parts <= 0 || b.level == maxLevel {
		return 0
	}
	b.move(b.latest)
	b.level -= parts
	return parts
}

func (b *Bucket) Free(at Instant, units, limit int64) Instant {
	switch {
	case fits(b.Used(at), units, limit):
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

func (b *Bucket) Reset(at Instant) Instant {
	if b.Used(at) == 0 {
		return at
	}
	return b.falls(at, 0)
}

func (b *Bucket) reset() {
	*b = Bucket{drain: b.drain, unit: b.unit, at: -2 * far, latest: longAgo}
}
