package window

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // so that zones load on a machine that has no files of them
)

// Calendar counts what is used in the present period of a calendar. A charge
// within lag of a boundary counts on both of its sides, because nobody can say
// on which one the upstream will count it. So until lag after a boundary the
// period before it must have room too.
type Calendar struct {
	spec   Spec
	lag    Instant
	latest Instant
	start  Instant // the present period
	end    Instant
	used   int64 // in the present period
	prev   int64 // in the one before; decides until start+lag
	next   int64 // in the one to come: charges since end-lag; never above used
}

// NewCalendar returns an empty calendar window for a spec that is [Spec.Normal].
func NewCalendar(s Spec) *Calendar {
	return &Calendar{spec: s, lag: s.lag(), latest: longAgo, start: longAgo, end: longAgo}
}

// advance changes the period once the stored one has ended, never before.
func (c *Calendar) advance(at Instant) {
	c.latest = max(c.latest, at)
	if at >= c.end {
		c.turn(c.spec.Bounds(at))
	}
}

func (c *Calendar) turn(start, end Instant) {
	switch {
	case start == c.end:
		c.prev, c.used = c.used, c.next
	case start < c.end:
		// The zone's rules have changed since the period was stored. The used
		// units may belong to this period, so they stay.
		c.prev = 0
	case c.next > 0 && c.following() == start:
		c.prev, c.used = c.next, 0 // nothing was written in the period between
	default:
		c.prev, c.used = 0, 0
	}
	c.next = 0
	c.start, c.end = start, end
}

// following returns the end of the period after the present one.
func (c *Calendar) following() Instant {
	_, end := c.spec.Bounds(c.end)
	return end
}

// view returns a copy of the calendar advanced to an instant, and the later of
// that instant and the latest seen. It does not change c.
func (c *Calendar) view(at Instant) (now Calendar, _ Instant) {
	now = *c
	now.advance(at)
	return now, now.latest
}

func (c *Calendar) Used(at Instant) int64 {
	if at = max(at, c.latest); at < c.end {
		return c.count(at)
	}
	if c.used == 0 {
		return 0
	}
	now, _ := c.view(at)
	return now.count(at)
}

// count returns the units that count at an instant in the present period.
func (c *Calendar) count(at Instant) int64 {
	if at < c.start+c.lag {
		return max(c.used, c.prev)
	}
	return c.used
}

func (c *Calendar) Take(at Instant, units, limit int64) bool {
	return fits(c.Used(at), units, limit) && c.Add(max(at, c.latest), units)
}

func (c *Calendar) Add(at Instant, units int64) bool {
	c.advance(at)
	var counted bool
	if at >= c.start-c.lag {
		fill(&c.used, units, MaxUnits)
		counted = true
	}
	if at >= c.end-c.lag {
		fill(&c.next, units, MaxUnits)
	}
	if c.inPrev(at) {
		fill(&c.prev, units, MaxUnits)
		counted = true
	}
	return counted
}

// inPrev reports whether an instant counts in the previous period, and that period
// still decides.
func (c *Calendar) inPrev(at Instant) bool {
	if after := c.start + c.lag; at >= after || c.latest >= after {
		return false
	}
	if at >= c.start-c.lag {
		return true
	}
	from, _ := c.spec.Bounds(c.start - 1)
	return at >= from-c.lag
}

func (c *Calendar) Give(at, taken Instant, units int64) int64 {
	c.advance(at)
	if taken >= c.end {
		return 0
	}
	var given int64
	if taken >= c.start-c.lag {
		given = drain(&c.used, units, MaxUnits)
	}
	if taken >= c.end-c.lag {
		drain(&c.next, units, MaxUnits)
	}
	if c.inPrev(taken) {
		given = max(given, drain(&c.prev, units, MaxUnits))
	}
	c.next = min(c.next, c.used)
	return given
}

// Since implements [Window]: all of the period that from is in. Shortly before the
// period began is in it too.
func (c *Calendar) Since(at, from Instant) (int64, Instant) {
	now, at := c.view(at)
	if from = min(from, at); from < now.start-c.lag {
		return 0, Never
	}
	return now.used, max(from, now.start)
}

func (c *Calendar) Forget(at Instant, units int64) int64 {
	c.advance(at)
	given, before := drain(&c.used, units, MaxUnits), drain(&c.prev, units, MaxUnits)
	c.next = min(c.next, c.used)
	if max(at, c.latest) < c.start+c.lag { // else the period before does not count any more
		return max(given, before)
	}
	return given
}

func (c *Calendar) Free(at Instant, units, limit int64) Instant {
	if fits(c.Used(at), units, limit) {
		return at
	}
	now, _ := c.view(at)
	switch {
	case units > limit:
		return Never
	case fits(now.used, units, limit):
		return now.start + c.lag // only the period before is full
	case fits(now.next, units, limit):
		return now.end + c.lag
	}
	return now.following() + c.lag
}

func (c *Calendar) Reset(at Instant) Instant {
	now, _ := c.view(at)
	return now.end
}

// gone returns the instant from which nothing that counts now, on either side
// of a boundary, counts any more.
func (c *Calendar) gone(at Instant) Instant {
	switch now, latest := c.view(at); {
	case now.next > 0:
		return now.following() + c.lag
	case now.used > 0:
		return now.end + c.lag
	case now.count(latest) > 0:
		return now.start + c.lag
	}
	return at
}

func (c *Calendar) reset() {
	*c = Calendar{spec: c.spec, lag: c.lag, latest: longAgo, start: longAgo, end: longAgo}
}

// zones caches loaded zones by name. Loading a zone takes longer than any other
// work on a page.
var zones sync.Map

// loadZone returns the zone of a name. Every process must get the same rules for
// it, so loadZone refuses the machine's local zone and invented zones.
func loadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	z, err := time.LoadLocation(name)
	if err != nil || z == time.Local || name == "" { // to time, no name is UTC; a zone of none has any offset
		return nil, fmt.Errorf("zone %q is not in the IANA database; name one that is, like America/Los_Angeles", name)
	}
	zones.Store(name, z)
	return z, nil
}

// Bounds returns the start and the end of the calendar period that at falls in.
//
// Days, weeks and months begin at the instant from which the zone's date has
// reached them for good: where midnight does not exist that is the end of the
// gap, where it comes twice and the date falls back it is the second one.
// Hours and minutes are those of the zone's clock, cut where its offset changes.
func (s Spec) Bounds(at Instant) (start, end Instant) {
	at = min(max(at, -2*far), 2*far) // beyond it, the years of a time.Time overflow
	t := at.Time().In(s.Zone)
	switch s.Period {
	case Minute:
		return clockBounds(t, 60)
	case Hour:
		return clockBounds(t, 3600)
	}
	first := s.first(t)
	start = begins(first, s.Zone)
	for start > at { // the date has been reached, but will fall back once more
		first = s.step(first, -1)
		start = begins(first, s.Zone)
	}
	for {
		first = s.step(first, 1)
		if end = begins(first, s.Zone); end > at {
			return start, end
		}
		start = end // a date that the zone skipped
	}
}

// date is a civil date, as a time at midnight UTC.
type date = time.Time

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// first returns the first date of t's period.
func (s Spec) first(t time.Time) date {
	d := dateOf(t)
	switch s.Period {
	case Week:
		return d.AddDate(0, 0, -(int(d.Weekday())+6)%7)
	case Month:
		return d.AddDate(0, 0, 1-d.Day())
	}
	return d
}

func (s Spec) step(d date, n int) date {
	switch s.Period {
	case Week:
		return d.AddDate(0, 0, 7*n)
	case Month:
		return d.AddDate(0, n, 0)
	}
	return d.AddDate(0, 0, n)
}

// begins returns the last instant at which the zone's date steps from before d
// to d or later. That can only be a local midnight or a change of the offset,
// and as far from d's midnight in UTC as the zone's offset is from it at most.
func begins(d date, zone *time.Location) Instant {
	const reach, second = 16 * time.Hour, Instant(time.Second / time.Microsecond)
	begun := func(at Instant) bool { return !dateOf(at.Time().In(zone)).Before(d) }
	best := longAgo
	try := func(unix int64) {
		if at := Instant(unix) * second; at > best && begun(at) && !begun(at-second) {
			best = at
		}
	}
	from, to := d.Add(-reach).Unix(), d.Add(reach).Unix()
	before, after := offset(from, zone), offset(to, zone)
	try(d.Unix() - before)
	if after != before {
		try(change(from, to, zone))
		try(d.Unix() - after)
	}
	return best
}

// clockBounds returns the bounds of t's minute or hour.
func clockBounds(t time.Time, unit int64) (start, end Instant) {
	const second = Instant(time.Second / time.Microsecond)
	zone, at := t.Location(), t.Unix()
	now := offset(at, zone)
	from := floorDiv(at+now, unit)*unit - now
	to := from + unit
	if offset(from, zone) != now {
		from = change(from, at, zone)
	}
	if offset(to-1, zone) != now {
		to = change(at, to-1, zone)
	}
	return Instant(from) * second, Instant(to) * second
}

// offset returns how far the zone's clock is ahead of UTC, in seconds.
func offset(unix int64, zone *time.Location) int64 {
	_, offset := time.Unix(unix, 0).In(zone).Zone()
	return int64(offset)
}

// change returns the second between from and to at which the zone's offset changes
// to the offset at to. The two may be at most a day and a half apart. In the whole
// database no offset changes twice within three days.
//
// time.Time.ZoneBounds would name it, but it also names a change at every new
// year without one, and on the last day of a leap year one in the past
// (go.dev/issue/81583). A caller that steps from bound to bound would then not advance.
func change(from, to int64, zone *time.Location) int64 {
	then := offset(to, zone)
	for from+1 < to {
		if mid := from + (to-from)/2; offset(mid, zone) == then {
			to = mid
		} else {
			from = mid
		}
	}
	return to
}
