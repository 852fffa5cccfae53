package window

import "time"

// MinYield is the least part of its quota that a window sustains by default.
const MinYield = 0.9

// Yield is the part of its quota that a window sustains under a load that always
// wants more. A ring gives units back up to one precision late, so it sustains
// per/(per+precision). All other windows sustain the whole quota.
func (s Spec) Yield() float64 {
	if s.Algorithm != Sliding || s.Per+s.Precision == 0 {
		return 1
	}
	return float64(s.Per) / float64(s.Span())
}

// Default returns s with the precision that it has if none is given.
func (s Spec) Default() Spec {
	if s.Algorithm == Sliding {
		s.Precision = defaultPrecision(s.Per)
	}
	return s
}

// defaultPrecision cuts per into 1440 buckets of at least a second, or into
// the next lower number of buckets that divides it. A window below ten seconds has
// ten buckets: with fewer it would not sustain its quota.
func defaultPrecision(per time.Duration) time.Duration {
	return nearestPrecision(per, max(per/1440, min(time.Second, per/10)))
}

// formerPrecisions were the defaults until windows below ten seconds got ten buckets, and
// until those below ten milliseconds did.
func formerPrecisions(per time.Duration) [2]time.Duration {
	return [2]time.Duration{
		nearestPrecision(per, max(per/1440, min(time.Second, per))),
		nearestPrecision(per, max(per/1440, min(time.Second, per/10), time.Millisecond)),
	}
}

// FormerDefault reports whether layouts are those of limits, but for rings that have
// the precision which used to be the default where limits have today's. A page like
// that is laid out again, though the price book is the same.
func FormerDefault(layouts []string, limits []Limit) bool {
	if len(layouts) != len(limits) {
		return false
	}
	former := false
	for i := range limits {
		if layouts[i] == limits[i].Layout {
			continue
		}
		if !limits[i].formerly(layouts[i]) {
			return false
		}
		former = true
	}
	return former
}

// FormerDefault is [FormerDefault] of the page.
func (p *Page) FormerDefault(limits []Limit) bool { return FormerDefault(p.shape.layouts, limits) }

// formerly reports whether a layout is that of the window with a former default
// precision. The window must have today's default.
func (l *Limit) formerly(layout string) bool {
	s := l.Spec
	if s.Algorithm != Sliding || s.Precision != defaultPrecision(s.Per) {
		return false
	}
	for _, s.Precision = range formerPrecisions(s.Per) {
		if s.Layout() == layout {
			return true
		}
	}
	return false
}

// nearestPrecision returns the shortest precision from least up that divides
// per into no more buckets than are allowed. As per is a whole number of
// milliseconds there is one close by.
func nearestPrecision(per, least time.Duration) time.Duration {
	for n := min(per/max(least, minPrecision), maxBuckets); n > 1; n-- {
		if per%n == 0 && (per/n)%time.Microsecond == 0 {
			return per / n
		}
	}
	return per
}

func ceilDuration(a time.Duration, n int64) time.Duration {
	return time.Duration(ceilDiv(int64(a), n))
}

// Dated reports whether the window knows when each of its units was charged, by its
// precision.
func (s Spec) Dated() bool { return s.Algorithm == Sliding || s.Algorithm == Exact }
