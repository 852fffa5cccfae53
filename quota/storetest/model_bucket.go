package storetest

import (
	"math/big"
	"slices"
)

// naiveBucket has every change of the level. It goes through all of them for each
// answer, in exact fractions of a unit.
type naiveBucket struct {
	rate    *big.Rat // units that drain in a microsecond
	changes []change // in order of time
	spells  [2]spell // the present one, and the one before
}

// spell is a time in which the level was never below low; nil is 0.
type spell struct {
	since instant
	low   *big.Rat
}

// least returns the least of numbers; nil is 0.
func least(all ...*big.Rat) *big.Rat {
	var least *big.Rat
	for _, r := range all {
		if r == nil {
			r = new(big.Rat)
		}
		if least == nil || r.Cmp(least) < 0 {
			least = r
		}
	}
	return least
}

// lower takes units out of a spell.
func (s *spell) lower(units *big.Rat) {
	if s.low != nil {
		if s.low = new(big.Rat).Sub(s.low, units); s.low.Sign() < 0 {
			s.low = nil
		}
	}
}

// change is how much a level rises, or falls.
type change struct {
	at    instant
	units *big.Rat
}

// level returns what is in the bucket at an instant.
func (b *naiveBucket) level(now instant) *big.Rat {
	level := new(big.Rat)
	for i, c := range b.changes {
		if i > 0 {
			b.drain(level, c.at-b.changes[i-1].at)
		}
		if level.Add(level, c.units); level.Sign() < 0 {
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
// the level at that time is unknown, so they count from that change on.
func (b *naiveBucket) add(at instant, units int64) {
	if n := len(b.changes); n > 0 {
		at = max(at, b.changes[n-1].at)
	}
	if units != 0 {
		b.raise(at, units)
	}
}

// raise adds units, and begins a spell if its low is twice that of the present one.
func (b *naiveBucket) raise(at instant, units int64) {
	present := &b.spells[0]
	low := least(present.low, b.level(at))
	b.changes = append(b.changes, change{at, whole(units)})
	level := b.level(at)
	switch {
	case present.since == at:
		low = level
	case level.Cmp(new(big.Rat).Add(low, low)) >= 0:
		b.spells = [2]spell{{at, nil}, {present.since, low}}
		low = level
	}
	b.spells[0].low = low
}

// give takes back what cannot have drained since it was taken, fractions of a unit too. It
// tries what can have drained until now, or only until a spell began in which the level was
// never below its low.
func (b *naiveBucket) give(now, taken instant, units int64) int64 {
	if taken > now {
		return 0
	}
	level := b.level(now)
	left := func(until instant) *big.Rat {
		drained := whole(int64(max(until-taken, 0)))
		return drained.Sub(whole(units), drained.Mul(drained, b.rate))
	}
	present, before := &b.spells[0], &b.spells[1]
	best := least(left(now), level)
	for _, other := range []*big.Rat{
		least(left(present.since), present.low, level),
		least(left(before.since), present.low, before.low, level),
	} {
		if other.Cmp(best) > 0 {
			best = other
		}
	}
	if best.Sign() <= 0 {
		return 0
	}
	present.low = least(present.low, level)
	present.lower(whole(units))
	if taken < present.since {
		before.lower(whole(units))
	}
	b.changes = append(b.changes, change{now, new(big.Rat).Neg(best)})
	return roundDown(best)
}

func (b *naiveBucket) forget(now instant, units int64) {
	if units = min(units, b.used(now)); units == 0 {
		return
	}
	gone := least(whole(units), b.level(now))
	b.spells[0].low = least(b.spells[0].low, b.level(now))
	b.spells[0].lower(gone)
	b.spells[1].lower(gone)
	b.changes = append(b.changes, change{now, gone.Neg(gone)})
}

func (b *naiveBucket) over(now instant) instant {
	level := b.level(now)
	return now + instant(roundUp(level.Quo(level, b.rate)))
}

func (b *naiveBucket) clear() { b.changes, b.spells = nil, [2]spell{} }

func (b *naiveBucket) clone() naive {
	c := *b
	c.changes = slices.Clone(b.changes)
	return &c
}
