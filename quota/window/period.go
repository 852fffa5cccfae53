package window

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // so that zones load on a machine that has no files of them
)

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
