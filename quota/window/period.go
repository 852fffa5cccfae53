package window

import (
	"time"
	_ "time/tzdata" // a zone must not depend on the machine's files
)

// Bounds returns the start and the end of the calendar period that at falls in.
//
// Days, weeks and months begin at the instant from which the zone's date has
// reached them for good: where midnight does not exist that is the end of the
// gap, where it comes twice and the date falls back it is the second one.
// Hours and minutes are cut where the zone's offset changes by a part of them.
func (s Spec) Bounds(at Instant) (start, end Instant) {
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
// to d or later. It can only be a local midnight or a change of the offset, and
// within two days of the date in UTC.
func begins(d date, zone *time.Location) Instant {
	const second = Instant(time.Second / time.Microsecond)
	begun := func(at Instant) bool { return !dateOf(at.Time().In(zone)).Before(d) }
	best := longAgo
	try := func(t time.Time) {
		if at := At(t); at > best && begun(at) && !begun(at-second) {
			best = at
		}
	}
	last := d.Add(48 * time.Hour)
	for t := d.Add(-48 * time.Hour); t.Before(last); {
		_, offset := t.In(zone).Zone()
		try(d.Add(-time.Duration(offset) * time.Second))
		_, change := t.In(zone).ZoneBounds()
		if change.IsZero() {
			break
		}
		try(change)
		t = change
	}
	return best
}

// clockBounds returns the bounds of t's minute or hour.
func clockBounds(t time.Time, unit int64) (start, end Instant) {
	_, offset := t.Zone()
	from := floorDiv(t.Unix()+int64(offset), unit)*unit - int64(offset)
	start, end = At(time.Unix(from, 0)), At(time.Unix(from+unit, 0))
	before, after := t.ZoneBounds()
	if !before.IsZero() {
		start = max(start, At(before))
	}
	if !after.IsZero() {
		end = min(end, At(after))
	}
	return start, end
}
