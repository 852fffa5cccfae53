package window

import (
	"math/big"
)

func ceil(r *big.Rat) *big.Int {
	minus := new(big.Int).Div(new(big.Int).Neg(r.Num()), r.Denom())
	return minus.Neg(minus)
}

// naiveBucket has every change of the level, as an exact fraction of a unit.
type naiveBucket struct {
	rate   *big.Rat // units per microsecond
	all    []raise
	spells [2]naiveSpell // the present one, and the one before
}

type naiveSpell struct {
	since Instant
	low   *big.Rat
}

type raise struct {
	at    Instant
	units *big.Rat
}

func newNaiveBucket(s Spec) *naive {
	b := &naiveBucket{rate: big.NewRat(s.Rate, s.Per.Microseconds())}
	b.clear()
	return &naive{latest: longAgo, model: b}
}

// level goes through all changes up to an instant.
func (b *naiveBucket) level(at Instant) *big.Rat {
	level, last := new(big.Rat), longAgo
	pass := func(to Instant) {
		if last != longAgo {
			drained := new(big.Rat).SetInt64(int64(to - last))
			if level.Sub(level, drained.Mul(drained, b.rate)); level.Sign() < 0 {
				level.SetInt64(0)
			}
		}
		last = to
	}
	for _, c := range b.all {
		pass(c.at)
		if level.Add(level, c.units); level.Sign() < 0 {
			level.SetInt64(0)
		}
	}
	pass(at)
	return level
}

func (b *naiveBucket) used(at Instant) int64 { return ceil(b.level(at)).Int64() }

// last is the instant of the last change, before which nothing is added.
func (b *naiveBucket) last() Instant {
	if n := len(b.all); n > 0 {
		return b.all[n-1].at
	}
	return longAgo
}

func (b *naiveBucket) add(at, latest Instant, units int64) bool {
	if units > 0 {
		at = max(at, b.last())
		present := &b.spells[0]
		low := lesser(present.low, b.level(at))
		b.change(at, new(big.Rat).SetInt64(units))
		level, twice := b.level(at), new(big.Rat).Add(low, low)
		switch {
		case present.since == at:
			low = level
		case level.Cmp(twice) >= 0:
			b.spells = [2]naiveSpell{{at, nil}, {present.since, low}}
			low = level
		}
		present.low = low
	}
	return units == 0 || b.used(latest) > 0
}

func (b *naiveBucket) change(at Instant, units *big.Rat) { b.all = append(b.all, raise{at, units}) }

// lower lowers the level of a spell.
func (s *naiveSpell) lower(units *big.Rat) {
	if s.low = new(big.Rat).Sub(s.low, units); s.low.Sign() < 0 {
		s.low = new(big.Rat)
	}
}

func lesser(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// give tries from when on the units may have drained: from the call on for as long as a
// spell had not begun, in which the level was not below its low.
func (b *naiveBucket) give(taken, latest Instant, units int64) int64 {
	if taken > latest {
		return 0
	}
	level := b.level(latest)
	left := func(until Instant, most ...*big.Rat) *big.Rat {
		gone := new(big.Rat).SetInt64(int64(max(until-taken, 0)))
		gone.Sub(new(big.Rat).SetInt64(units), gone.Mul(gone, b.rate))
		for _, m := range append(most, level) {
			gone = lesser(gone, m)
		}
		return gone
	}
	present, before := &b.spells[0], &b.spells[1]
	best := new(big.Rat)
	for _, way := range []*big.Rat{left(latest), left(present.since, present.low), left(before.since, present.low, before.low)} {
		if way.Cmp(best) > 0 {
			best = way
		}
	}
	if best.Sign() == 0 {
		return 0
	}
	present.low = lesser(present.low, level)
	present.lower(new(big.Rat).SetInt64(units))
	if taken < present.since {
		before.lower(new(big.Rat).SetInt64(units))
	}
	b.change(latest, new(big.Rat).Neg(best))
	return new(big.Int).Div(best.Num(), best.Denom()).Int64() // Euclidean: floors
}

func (b *naiveBucket) forget(latest Instant, units int64) {
	if level := b.level(latest); units > 0 && level.Sign() > 0 {
		gone := lesser(new(big.Rat).SetInt64(units), level)
		b.spells[0].low = lesser(b.spells[0].low, level)
		b.spells[0].lower(gone)
		b.spells[1].lower(gone)
		b.change(latest, new(big.Rat).Neg(gone))
	}
}

func (b *naiveBucket) clear() {
	b.all = nil
	b.spells = [2]naiveSpell{{low: new(big.Rat)}, {low: new(big.Rat)}}
}

func (b *naiveBucket) changes(Instant) []Instant { return nil } // see Free

// falls returns the first instant at which no more than some units are used.
func (b *naiveBucket) falls(at Instant, units int64) Instant {
	over := b.level(at)
	over.Sub(over, new(big.Rat).SetInt64(units))
	return at + Instant(ceil(over.Quo(over, b.rate)).Int64())
}
