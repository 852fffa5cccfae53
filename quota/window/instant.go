package window

import (
	"math"
	"time"
)

// Instant is a point in time: microseconds since 1970 UTC, negative before it.
// It is the resolution of every store's clock, and an integer so that the same
// arithmetic is exact in Go, in SQL and in Lua's doubles.
type Instant int64

const (
	// Never is the answer for what no amount of waiting brings.
	Never Instant = math.MaxInt64
	// longAgo is before every instant that a clock can show.
	longAgo Instant = math.MinInt64
	// far bounds instants, so that adding a window to one cannot overflow.
	far = Instant(1) << 61
)

// At returns the instant of t, cut to the microsecond. Beyond some 73,000 years
// from 1970 all times are one.
func At(t time.Time) Instant {
	const most = int64(far) / 1_000_000
	switch s := t.Unix(); {
	case s >= most:
		return far
	case s <= -most:
		return -far
	}
	return Instant(t.UnixMicro())
}

// Time returns i as a time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Add returns i moved by d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Microseconds()) }

// Sub returns the time from j to i, at most the longest Duration. Never is
// infinitely far off.
func (i Instant) Sub(j Instant) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	if i == Never {
		return math.MaxInt64
	}
	switch d := int64(i) - int64(j); {
	case d > most:
		return math.MaxInt64
	case d < -most:
		return math.MinInt64
	default:
		return time.Duration(d) * time.Microsecond
	}
}

// floorDiv divides towards minus infinity, so that buckets and periods before
// 1970 are as long as those after it.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv divides two numbers that are not negative, rounding up.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
