package window

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Algorithm is how a window counts.
type Algorithm string

// The ways to count. The zero value of a Spec's Algorithm means [Sliding]
// where Per is set and [ByCalendar] where Period is set.
const (
	Sliding    Algorithm = "ring"      // buckets of one precision; rounds to the safe side
	Exact      Algorithm = "log"       // an entry per distinct instant
	Estimate   Algorithm = "counter"   // previous x overlap + current: an estimate
	Leaky      Algorithm = "bucket"    // a level that drains at a steady rate
	ByCalendar Algorithm = "calendar"  // one counter per period of a calendar
	InFlight   Algorithm = "in_flight" // a log of slots; Per is how long one counts unless it is renewed
)

// Period is a unit of a calendar.
type Period string

// The periods a calendar window can have. A week starts on Monday.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Week   Period = "week"
	Month  Period = "month"
)

// longestOf has the greatest length of each period, without the hour that a change of daylight
// saving time adds.
var longestOf = map[Period]time.Duration{Minute: time.Minute, Hour: time.Hour, Day: 24 * time.Hour, Week: 7 * 24 * time.Hour, Month: 31 * 24 * time.Hour}

const (
	// MaxPer is the longest window.
	MaxPer = 366 * 24 * time.Hour
	// MaxSlack is the longest time for which units are handed out after they were taken, by
	// a hold or from a leased block, whatever the windows allow. When a page is laid out
	// again, nobody knows more of what is out.
	MaxSlack = time.Minute
	// MaxUnits is the largest charge and the largest quota. It is exact in a double, and
	// so in Lua and in JSON. Every sum of units stops there.
	MaxUnits = 1<<53 - 1
	// maxNarrow is the most that a slot of four bytes holds. There it sticks.
	maxNarrow = 1<<32 - 1
	// maxCounter is the most that a counter holds, and its largest limit: times the steps
	// of its overlap it is still exact in a double.
	maxCounter = 1 << 32
	// minPrecision is the shortest bucket of a ring: a tenth of the shortest window.
	minPrecision = 100 * time.Microsecond
	// maxBuckets bounds a ring, and so the size of its page.
	maxBuckets = 14_400
)

// Spec says what a window counts over, not how much it admits: limits come
// with every question, so that a changed limit applies at once.
//
// A sliding window sets Per and an Algorithm; a calendar window sets Period and
// Zone. [Spec.Normal] checks a Spec and fills in what was left out.
type Spec struct {
	Algorithm Algorithm
	Per       time.Duration  // sliding: how far back it looks
	Precision time.Duration  // ring: length of a bucket; zero means per/1440, at least 1s, at most per/10
	Late      time.Duration  // ring: counts units for longer, by this rounded up to the precision: calls arrive so late
	Wide      bool           // ring: slots of 8 bytes, for limits that do not fit in 4; see [Spec.For]
	Rate      int64          // bucket: the units that drain in each Per
	Period    Period         // calendar: what it counts over
	Zone      *time.Location // calendar: whose calendar; nil means UTC
	Lag       time.Duration  // calendar: charges this near a boundary count on both sides; zero means 1m, at most a 60th of the period; negative means none
}

// Normal returns s with every default filled in, or says what is wrong with it.
func (s Spec) Normal() (Spec, error) {
	if s.Algorithm == "" {
		s.Algorithm = Sliding
		if s.Period != "" {
			s.Algorithm = ByCalendar
		}
	}
	switch s.Algorithm {
	case ByCalendar:
		return s.normalCalendar()
	case Sliding, Exact, Estimate, Leaky, InFlight:
		return s.normalSliding()
	}
	return s, fmt.Errorf("algorithm %q must be ring, log, counter or bucket", string(s.Algorithm))
}

func (s Spec) normalSliding() (Spec, error) {
	switch {
	case s.Period != "":
		return s, fmt.Errorf("a window per %s counts by the calendar; it takes no algorithm %q", s.Period, s.Algorithm)
	case s.Zone != nil || s.Lag != 0:
		return s, errors.New("zone and lag belong to a window per minute, hour, day, week or month")
	case s.Per <= 0:
		return s, fmt.Errorf("per must be above 0, is %s", s.Per)
	case s.Per > MaxPer:
		return s, fmt.Errorf("per may be at most %s, is %s", short(MaxPer), short(s.Per))
	case s.Per%time.Millisecond != 0:
		return s, fmt.Errorf("per must be a whole number of milliseconds, is %s", s.Per)
	case s.Algorithm != Sliding && s.Precision != 0:
		return s, fmt.Errorf("precision belongs to a ring, not to a %s", s.Algorithm)
	case s.Algorithm != Sliding && (s.Late != 0 || s.Wide):
		return s, fmt.Errorf("late belongs to a ring, not to a %s", s.Algorithm)
	case s.Algorithm == Leaky && (s.Rate < 1 || s.Rate > MaxUnits):
		return s, fmt.Errorf("a bucket drains 1 to %d units in each %s, not %d", int64(MaxUnits), short(s.Per), s.Rate)
	case s.Algorithm != Leaky && s.Rate != 0:
		return s, fmt.Errorf("a rate belongs to a bucket, not to a %s", s.Algorithm)
	}
	if s.Algorithm != Sliding {
		return s, nil
	}
	if s.Precision == 0 {
		s.Precision = defaultPrecision(s.Per)
	}
	switch {
	case s.Precision < minPrecision:
		return s, fmt.Errorf("precision must be at least %s, is %s", minPrecision, s.Precision)
	case s.Precision > s.Per:
		return s, fmt.Errorf("precision %s is above per %s", short(s.Precision), short(s.Per))
	case s.Precision%time.Microsecond != 0 || s.Per%s.Precision != 0:
		return s, fmt.Errorf("precision %s does not divide per %s; try %s", s.Precision, short(s.Per), short(nearestPrecision(s.Per, s.Precision)))
	case s.Per/s.Precision > maxBuckets:
		return s, fmt.Errorf("precision %s would cut %s into %d buckets, at most %d are allowed; try %s", s.Precision, short(s.Per),
			s.Per/s.Precision, maxBuckets, short(nearestPrecision(s.Per, ceilDuration(s.Per, maxBuckets))))
	case s.Late < 0 || s.Late > s.Per:
		return s, fmt.Errorf("late may be 0s to per %s, is %s", short(s.Per), short(s.Late))
	}
	return s, nil
}

func (s Spec) normalCalendar() (Spec, error) {
	longest := longestOf[s.Period]
	switch {
	case longest == 0:
		return s, fmt.Errorf("per %q is no duration and none of minute, hour, day, week, month", string(s.Period))
	case s.Per != 0 || s.Precision != 0:
		return s, fmt.Errorf("a window per %s takes no precision", s.Period)
	case s.Late != 0 || s.Wide || s.Rate != 0:
		return s, fmt.Errorf("late belongs to a ring, not to a window per %s", s.Period)
	case s.Lag > longest/2:
		return s, fmt.Errorf("lag may be at most %s in a window per %s, is %s", short(longest/2), s.Period, short(s.Lag))
	case s.Lag > 0 && s.Lag%time.Microsecond != 0:
		return s, fmt.Errorf("lag must be a whole number of microseconds, is %s", s.Lag)
	}
	if s.Lag == 0 {
		s.Lag = min(time.Minute, longest/60)
	}
	s.Lag = max(s.Lag, -1)
	var err error
	s.Zone, err = loadZone(s.Zone.String()) // of a nil zone that is UTC
	return s, err
}

// lag returns the distance from a boundary within which charges count on both sides.
func (s Spec) lag() Instant { return Instant(max(s.Lag, 0).Microseconds()) }

// Calendar reports whether the window counts the periods of a calendar. All of its
// units come back together, at the end of a period: see [Spec.Bounds].
func (s Spec) Calendar() bool { return s.Algorithm == ByCalendar }

// Ring reports whether the window is a ring.
func (s *Spec) Ring() bool { return s.Algorithm == Sliding }

// Estimates reports whether the window may admit more than its limit.
func (s Spec) Estimates() bool { return s.Algorithm == Estimate }

// InFlight reports whether the window counts calls in flight. A unit is a slot: it is given
// back when its call ends, and renewed until then.
func (s *Spec) InFlight() bool { return s.Algorithm == InFlight }

// For returns s with what it needs for limits up to a quota, or says why it cannot have
// them. The windows of one page must be made for the same quota, whatever the limits of
// the classes that use it: the slots of a ring are wider for a quota above 32 bits.
func (s Spec) For(quota int64) (Spec, error) {
	s.Wide = s.Algorithm == Sliding && (s.Wide || quota >= maxNarrow)
	most := s.MaxLimit()
	switch {
	case quota <= most:
		return s, nil
	case s.Algorithm == Estimate:
		return s, fmt.Errorf("a counter has room for %d units, not for %d; use a ring", most, quota)
	case s.Algorithm == Leaky:
		return s, fmt.Errorf("a bucket of %d per %s has room for %d units at most, not for %d; lower burst, or write the rate with a shorter per",
			s.Rate, short(s.Per), most, quota)
	}
	return s, fmt.Errorf("a window has room for %d units, not for %d", most, quota)
}

// MaxLimit returns the largest limit that the window can keep.
func (s *Spec) MaxLimit() int64 {
	switch {
	case s.Algorithm == Sliding && !s.Wide:
		return maxNarrow - 1
	case s.Algorithm == Estimate:
		return maxCounter
	case s.Algorithm == Leaky:
		_, unit := s.Drain()
		return min(maxLevel/unit, MaxUnits)
	}
	return MaxUnits
}

// Drain returns the rate of a bucket in lowest terms: so many units drain in so many
// microseconds.
func (s *Spec) Drain() (units, micros int64) {
	units, micros = s.Rate, s.Per.Microseconds()
	a, b := units, micros
	for b != 0 {
		a, b = b, a%b
	}
	return units / a, micros / a
}

// Drains reports whether units begin to leave as soon as they are taken. They are then
// not counted for any time that a caller could rely on.
func (s Spec) Drains() bool { return s.Algorithm == Leaky }

// extra returns how many buckets longer a ring counts units, for calls that arrive late.
func (s Spec) extra() int64 { return ceilDiv(int64(s.Late), max(int64(s.Precision), 1)) }

// Buckets returns how many buckets of a ring count beside the newest one.
func (s Spec) Buckets() int64 { return int64(s.Per/s.Precision) + s.extra() }

// Length returns how long the window is: Per, or the longest that its period can be,
// without the hour that a change of daylight saving time adds.
func (s Spec) Length() time.Duration { return max(s.Per, longestOf[s.Period]) }

// Slack returns how long after an instant the units that were taken then may be spent
// upstream. Until then, this window counts them for at least as long as the upstream
// does. A ring counts units until a window after the end of their bucket, so they may
// leave until that bucket ends. That it may count them longer, for calls that arrive
// late, is left for those calls. A log and a counter count from the instant and leave no
// slack, and a bucket drains from then on. A calendar gives no bound of its own: its
// units may leave within the period.
func (s Spec) Slack(at Instant) time.Duration {
	switch s.Algorithm {
	case ByCalendar:
		return math.MaxInt64
	case Sliding:
		precision := s.Precision.Microseconds()
		return Instant((floorDiv(int64(at), precision) + 1) * precision).Sub(at)
	}
	return 0
}

// countsFrom returns the instant at which units must be added, so that they count for a
// window from when they are sent, which is at sent at the latest. It may be earlier than now;
// that stands for any such instant.
func (s *Spec) countsFrom(now, sent Instant) Instant {
	switch s.Algorithm {
	case Sliding:
		precision := s.Precision.Microseconds()
		return Instant((-floorDiv(int64(-sent), precision) - 1 - s.extra()) * precision)
	case ByCalendar:
		if _, end := s.Bounds(now); sent <= end-s.lag() {
			return now // they count in the period of both
		}
	}
	return sent
}

// oldest returns the earliest instant whose units count at at, but at itself for windows
// that count units less and less.
func (s *Spec) oldest(at Instant) Instant {
	switch s.Algorithm {
	case Sliding:
		precision := s.Precision.Microseconds()
		return Instant((floorDiv(int64(at), precision) - s.Buckets()) * precision)
	case Exact, InFlight:
		return at.Add(-s.Per) + 1
	}
	return at
}

// Span is the time after which a charge has certainly left the window. A bucket has no
// such time, because that depends on what is in it: [Page.Idle] and [Page.Expires] ask it.
// Its Per stands for it where a clock that stepped back is told from one that had been far
// ahead.
func (s Spec) Span() time.Duration {
	switch s.Algorithm {
	case ByCalendar:
		return longestOf[s.Period] + 2*time.Hour + 2*max(s.Lag, 0) // a longer day, and both lags
	case Estimate:
		return 2 * s.Per
	case Leaky:
		return s.Per
	}
	return s.Per + time.Duration(s.extra()+1)*s.Precision
}

// Resolution is how late capacity may come back: promise 4's "one precision".
func (s Spec) Resolution() time.Duration {
	switch s.Algorithm {
	case Sliding:
		return s.Precision
	case Estimate:
		return s.Per / time.Duration(s.steps())
	}
	return time.Microsecond
}

// steps returns the number of steps into which an estimate cuts its window. Previous
// (below 2^32) x steps (below 2^20) stays exact in a double.
func (s Spec) steps() int64 {
	if s.Per%time.Second == 0 {
		return 1_000_000
	}
	return 1_000
}

// String names the window as verdicts, metrics and pages do: "24h",
// "24h log", "1m counter", "50 per 1s bucket", "day America/Los_Angeles",
// "at once".
func (s Spec) String() string {
	switch s.Algorithm {
	case ByCalendar:
		return string(s.Period) + " " + s.Zone.String()
	case Sliding:
		return short(s.Per)
	case InFlight:
		return "at once"
	case Leaky:
		if s.Rate > 0 {
			return fmt.Sprintf("%d per %s bucket", s.Rate, short(s.Per))
		}
	}
	return short(s.Per) + " " + string(s.Algorithm)
}

// Layout tells two specs apart that would keep different state. [ParseLayout]
// reads it back.
func (s Spec) Layout() string {
	switch s.Algorithm {
	case ByCalendar:
		return fmt.Sprintf("calendar %s %s %s", s.Period, s.Zone, s.Lag)
	case Leaky:
		return fmt.Sprintf("%s %s %d", s.Algorithm, s.Per, s.Rate)
	}
	text := fmt.Sprintf("%s %s %s", s.Algorithm, s.Per, s.Precision)
	if late := time.Duration(s.extra()) * s.Precision; late > 0 {
		text += " late " + late.String()
	}
	if s.Wide {
		text += " wide"
	}
	return text
}

// ParseLayout reads what [Spec.Layout] wrote.
func ParseLayout(text string) (Spec, error) {
	f := strings.Fields(text)
	s, err := Spec{}, errors.New("not a layout")
	switch {
	case len(f) == 4 && f[0] == string(ByCalendar):
		s = Spec{Algorithm: ByCalendar, Period: Period(f[1])}
		if s.Zone, err = loadZone(f[2]); err == nil {
			s.Lag, err = time.ParseDuration(f[3])
		}
	case len(f) >= 3 && f[0] != string(ByCalendar):
		s, err = parseSliding(f)
	}
	if err == nil {
		s, err = s.Normal()
	}
	if err == nil && s.Layout() != text {
		err = errors.New("not a layout")
	}
	if err != nil {
		return Spec{}, fmt.Errorf("window layout %q: %w", text, err)
	}
	return s, nil
}

// parseSliding reads the words of the layout of any other window.
func parseSliding(f []string) (s Spec, err error) {
	s.Algorithm = Algorithm(f[0])
	if s.Per, err = time.ParseDuration(f[1]); err != nil {
		return s, err
	}
	if s.Algorithm == Leaky {
		s.Rate, err = strconv.ParseInt(f[2], 10, 64)
		return s, err
	}
	if s.Precision, err = time.ParseDuration(f[2]); err != nil {
		return s, err
	}
	if f = f[3:]; len(f) >= 2 && f[0] == "late" {
		s.Late, err = time.ParseDuration(f[1])
		f = f[2:]
	}
	s.Wide = len(f) > 0 // Layout would not write another word
	return s, err
}

// short prints a duration without the zeros that time.Duration adds: 24h, not
// 24h0m0s.
func short(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= u.unit && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return d.String()
}
