package storetest

import (
	"math/big"
	"slices"
)

// naiveBucket has every change of the level. It goes through all of them for each
// answer, in exact fractions of a unit.
type naiveBucket struct {
	rate    *big.Rat // units that drain in a microsecond
	changes []charge // in order of time; negative units were taken back
}

// level returns what is in the bucket at an instant.
func (b *naiveBucket) level(now instant) *big.Rat {
	level := new(big.Rat)
	for i, c := range b.changes {
		if i > 0 {
			b.drain(level, c.at-b.changes[i-1].at)
		}
		if level.Add(level, whole(c.units)); level.Sign() < 0 {
			level = whole(0)
		}
	}
	if n := len(b.changes); n > 0 {
		b.drain(level, now-b.changes[n-1].at)
	}
	return level
}

// drain lets time pass.
func (b *naiveBucket) drain(level *big.Rat, d instant) {
	gone := whole(int64(d))
	if level.Sub(level, gone.Mul(gone, b.rate)); level.Sign() < 0 {
		level.SetInt64(0)
	}
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func roundDown(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // Euclidean division
}

func roundUp(r *big.Rat) int64 { return -roundDown(new(big.Rat).Neg(r)) }

func (b *naiveBucket) used(now instant) int64 { return roundUp(b.level(now)) }

func (b *naiveBucket) since(now, _ instant) (units int64, first instant, ok bool) {
	return b.used(now), now, true
}

// add counts units of the past from when they were spent. If the level has changed since,
// nobody knows what was in the bucket then, so they count from that change on.
func (b *naiveBucket) add(at instant, units int64) {
	if n := len(b.changes); n > 0 {
		at = max(at, b.changes[n-1].at)
	}
	if units != 0 {
		b.changes = append(b.changes, charge{at, units})
	}
}

// give takes back units that cannot have drained since they were taken.
func (b *naiveBucket) give(now, taken instant, units int64) int64 {
	if taken > now {
		return 0
	}
	drained := whole(int64(now - taken))
	drained.Mul(drained, b.rate)
	left := roundDown(drained.Sub(whole(units), drained))
	left = max(min(left, roundDown(b.level(now))), 0)
	b.add(now, -left)
	return left
}

func (b *naiveBucket) forget(now instant, units int64) { b.add(now, -min(units, b.used(now))) }

func (b *naiveBucket) over(now instant) instant {
	level := b.level(now)
	return now + instant(roundUp(level.Quo(level, b.rate)))
}

func (b *naiveBucket) clear() { b.changes = nil }

func (b *naiveBucket) clone() naive {
	c := *b
	c.changes = slices.Clone(b.changes)
	return &c
}
