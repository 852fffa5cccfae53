package window

import "time"

// Ring is a sliding window cut into n buckets of one precision. It keeps n+1
// of them, because the oldest counts in full until all of it has left: it
// never admits more than the exact log would, and gives back at most one
// precision later. Its spec may keep units for more buckets, for late calls, and have
// slots of 8 bytes instead of 4, for large limits.
type Ring struct {
	per       time.Duration
	precision int64
	slots     []uint32 // slots[b mod (n+1)] holds bucket b
	high      []uint32 // the upper halves of wide slots; nil if they are narrow
	used      int64    // the sum of all slots, at most MaxUnits
	bucket    int64    // the newest bucket
	slot      int      // bucket's place in slots
	end       Instant  // where bucket ends
}

// NewRing returns an empty ring for a spec that is [Spec.Normal].
func NewRing(s Spec) *Ring {
	r := &Ring{
		per:       s.Per,
		precision: s.Precision.Microseconds(),
		slots:     make([]uint32, s.Buckets()+1),
		end:       longAgo,
	}
	if s.Wide {
		r.high = make([]uint32, len(r.slots))
	}
	return r
}

// units returns what is in a slot.
func (r *Ring) units(slot int) int64 {
	if r.high != nil {
		return int64(r.high[slot])<<32 | int64(r.slots[slot])
	}
	return int64(r.slots[slot])
}

// set changes what is in a slot, and the sum.
func (r *Ring) set(slot int, units int64) {
	r.used += units - r.units(slot)
	r.slots[slot] = uint32(units)
	if r.high != nil {
		r.high[slot] = uint32(units >> 32)
	}
}

// advance enters the bucket of at and clears the buckets that have left the window.
// In the steady state it is one comparison.
func (r *Ring) advance(at Instant) {
	if at >= r.end {
		r.sweep(floorDiv(int64(at), r.precision))
	}
}

func (r *Ring) sweep(bucket int64) {
	if r.end == longAgo || bucket-r.bucket >= int64(len(r.slots)) {
		if r.used > 0 {
			r.empty()
		}
	} else {
		for b, slot := r.bucket, r.slot; b < bucket; b++ {
			slot = r.after(slot)
			r.set(slot, 0)
		}
	}
	r.enter(bucket)
}

func (r *Ring) empty() {
	clear(r.slots)
	clear(r.high)
	r.used = 0
}

func (r *Ring) enter(bucket int64) {
	r.bucket, r.slot = bucket, r.index(bucket)
	r.end = Instant((bucket + 1) * r.precision)
}

func (r *Ring) index(bucket int64) int {
	n := int64(len(r.slots))
	return int(bucket - floorDiv(bucket, n)*n)
}

// after returns the slot of the next bucket.
func (r *Ring) after(slot int) int {
	if slot++; slot == len(r.slots) {
		return 0
	}
	return slot
}

// leaves returns the instant at which a whole bucket has left the window.
func (r *Ring) leaves(bucket int64) Instant {
	return Instant((bucket + int64(len(r.slots))) * r.precision)
}

func (r *Ring) oldest() int64 { return r.bucket - int64(len(r.slots)) + 1 }

// view returns the units that still count at an instant, and the oldest bucket that
// counts. It does not change r.
func (r *Ring) view(at Instant) (used, oldest int64) {
	used, oldest = r.used, r.oldest()
	if at < r.end || used == 0 {
		return used, oldest
	}
	stays := floorDiv(int64(at), r.precision) - int64(len(r.slots)) + 1
	for slot := r.index(oldest); oldest < stays && used > 0; oldest++ {
		used -= r.units(slot)
		slot = r.after(slot)
	}
	return used, oldest
}

func (r *Ring) Used(at Instant) int64 {
	if at < r.end {
		return r.used
	}
	used, _ := r.view(at)
	return used
}

func (r *Ring) Take(at Instant, units, limit int64) bool {
	if !fits(r.Used(at), units, limit) {
		return false
	}
	r.advance(at)
	r.put(r.slot, units)
	return true
}

func (r *Ring) Add(at Instant, units int64) bool {
	r.advance(at)
	slot, ok := r.find(at)
	if ok {
		r.put(slot, units)
	}
	return ok
}

// find returns the slot in which at, which is before end, counts.
func (r *Ring) find(at Instant) (int, bool) {
	if at >= r.end-Instant(r.precision) {
		return r.slot, true
	}
	bucket := floorDiv(int64(at), r.precision)
	return r.index(bucket), bucket >= r.oldest()
}

// put adds units to a slot. A narrow slot that is full is above every possible limit. A
// wide ring that is full drops its oldest units instead, for the same reason: the newer
// ones leave later. In both cases the window then grants nothing.
func (r *Ring) put(slot int, units int64) {
	if r.high == nil {
		units = min(units, maxNarrow-int64(r.slots[slot]))
		r.slots[slot] += uint32(units)
		r.used += units
		return
	}
	over := units - (MaxUnits - r.used)
	for oldest := r.after(r.slot); over > 0 && oldest != slot; oldest = r.after(oldest) {
		n := min(over, r.units(oldest))
		r.set(oldest, r.units(oldest)-n)
		over -= n
	}
	r.set(slot, r.units(slot)+units-max(over, 0))
}

// full reports whether a slot has lost count.
func (r *Ring) full(slot int) bool {
	return r.high == nil && r.slots[slot] == maxNarrow || r.used == MaxUnits
}

func (r *Ring) Give(at, taken Instant, units int64) int64 {
	r.advance(at)
	if taken >= r.end {
		return 0
	}
	slot, ok := r.find(taken)
	if !ok {
		return 0
	}
	return r.pull(slot, units)
}

// pull takes units out of a slot, and returns how many it took. A full slot gives
// nothing back, because its count is no longer exact.
func (r *Ring) pull(slot int, units int64) int64 {
	if r.full(slot) {
		return 0
	}
	units = min(units, r.units(slot))
	r.set(slot, r.units(slot)-units)
	return units
}

// Since implements [Window]. A bucket counts if its middle is not before from: an
// instant is then at most half a precision off.
func (r *Ring) Since(at, from Instant) (units int64, first Instant) {
	if at < r.end {
		at = max(at, r.end-Instant(r.precision))
	}
	if from = min(from, at); from+Instant(int64(len(r.slots)-1)*r.precision) <= at {
		return 0, Never
	}
	now := floorDiv(int64(at), r.precision)
	bucket := min(-floorDiv(r.precision-2*int64(from), 2*r.precision), now)
	for b := max(bucket, r.oldest()); b <= r.bucket; b++ {
		units += r.units(r.index(b))
	}
	return units, max(from, Instant(bucket*r.precision))
}

func (r *Ring) Forget(at Instant, units int64) (given int64) {
	r.advance(at)
	for b, slot := r.oldest(), r.after(r.slot); b <= r.bucket && given < units; b++ {
		given += r.pull(slot, units-given)
		slot = r.after(slot)
	}
	return given
}

func (r *Ring) Free(at Instant, units, limit int64) Instant {
	used, b := r.view(at)
	switch {
	case fits(used, units, limit):
		return at
	case units > limit:
		return Never
	}
	need := used + units - limit // at most used, which is in the slots from b on
	slot := r.index(b)
	if r.high != nil {
		for ; ; b, slot = b+1, r.after(slot) {
			if need -= r.units(slot); need <= 0 {
				return r.leaves(b)
			}
		}
	}
	for _, part := range [...][]uint32{r.slots[slot:], r.slots[:slot]} {
		for len(part) >= 4 { // most slots are empty, so four are skipped at once
			sum := int64(part[0]) + int64(part[1]) + int64(part[2]) + int64(part[3])
			if sum >= need {
				break
			}
			need, part, b = need-sum, part[4:], b+4
		}
		for _, n := range part {
			if need -= int64(n); need <= 0 {
				return r.leaves(b)
			}
			b++
		}
	}
	return Never // not reached
}

func (r *Ring) Reset(at Instant) Instant {
	if r.Used(at) == 0 {
		return at
	}
	b := r.bucket
	for slot := r.slot; r.units(slot) == 0; b-- {
		if slot--; slot < 0 {
			slot = len(r.slots) - 1
		}
	}
	return r.leaves(b)
}

func (r *Ring) reset() {
	r.empty()
	r.end = longAgo
}

// moveTo adds the units of r to an empty ring of another shape, each bucket at its last
// instant, or at if that is earlier. Units that may still be sent, at most until sent, are
// added later: see [Spec.countsFrom]. It returns how many of them the other ring counts at at.
func (r *Ring) moveTo(to *Ring, at, sent Instant, s *Spec) (moved int64) {
	to.advance(at)
	_, oldest := r.view(at) // r may stay in use: its time must not move
	for b := oldest; b <= r.bucket; b++ {
		units := r.units(r.index(b))
		last := min(at, Instant((b+1)*r.precision-1))
		if units > 0 && to.Add(max(last, s.countsFrom(at, min(sent, r.leaves(b).Add(-r.per)))), units) {
			moved += units
		}
	}
	return moved
}

func (r *Ring) span() time.Duration {
	return time.Duration(int64(len(r.slots)-1)*r.precision) * time.Microsecond
}
