package storekit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/window"
)

// SpendDays is how many days a store keeps spend at least.
const SpendDays = 30

// MaxSpendLabels is how many sets of labels a store tells apart per pool and hour. It
// counts later ones under [quota.OtherLabels].
const MaxSpendLabels = 2000

// DayOf returns the day of a zone's calendar that an instant falls in; nil is
// UTC.
func DayOf(at window.Instant, zone *time.Location) (start, end window.Instant) {
	return window.Spec{Period: window.Day, Zone: cmp.Or(zone, time.UTC)}.Bounds(at)
}

// DayName names the day of a zone's calendar that an instant falls in:
// 2026-11-20.
func DayName(at window.Instant, zone *time.Location) string {
	return at.Time().In(cmp.Or(zone, time.UTC)).Format(time.DateOnly)
}

// HourOf returns the part of a day of a zone's calendar that is in one hour of UTC, and
// its name: 2026-11-20.07 is in the eighth hour that the day has a part of. Stores keep
// spend by it.
func HourOf(at window.Instant, zone *time.Location) (start, end window.Instant, name string) {
	first, last := DayOf(at, zone)
	hour := UTCHour(at)
	start, end = max(first, hour), min(last, hour+hourLong)
	return start, end, fmt.Sprintf("%s.%02d", DayName(first, zone), (hour-UTCHour(first))/hourLong)
}

const hourLong = window.Instant(time.Hour / time.Microsecond)

// UTCHour returns the start of the hour of UTC of an instant.
func UTCHour(at window.Instant) window.Instant {
	if past := at % hourLong; past < 0 {
		return at - past - hourLong
	} else {
		return at - past
	}
}

// Hours returns the names of the hours of a day, and the name under which earlier versions
// kept the spend of all of it.
func Hours(day string) []string {
	names := []string{day}
	for n := range 26 { // a day of 25 hours may begin within one
		names = append(names, fmt.Sprintf("%s.%02d", day, n))
	}
	return names
}

// Named returns the spend with the day and the hour that have this name in a zone, and
// whether a query asks for it.
func Named(s quota.Spent, name string, zone *time.Location, q quota.SpendQuery) (quota.Spent, bool) {
	day, part, hourly := strings.Cut(name, ".")
	s.Day = day
	if !Covers(q, day, zone) {
		return s, false
	}
	n, err := strconv.Atoi(part)
	noon, failed := time.ParseInLocation(time.DateOnly+" 15", day+" 12", cmp.Or(zone, time.UTC))
	if !hourly || !q.Hours || err != nil || failed != nil {
		return s, true
	}
	first, _ := DayOf(window.At(noon), zone)
	s.Hour = (UTCHour(first) + window.Instant(n)*hourLong).Time().UTC()
	return s, s.Hour.Add(time.Hour).After(q.Since)
}

// Sum adds up the spend of the same labels in the same hour, or day. It uses the slice.
func Sum(all []quota.Spent) []quota.Spent {
	sums, places := all[:0], map[quota.Spent]int{}
	for _, s := range all {
		key := s
		key.Units, key.Calls = 0, 0
		i, known := places[key]
		if !known {
			places[key], sums = len(sums), append(sums, s)
			continue
		}
		sums[i].Units = min(sums[i].Units+s.Units, window.MaxUnits)
		sums[i].Calls += s.Calls
	}
	return slices.DeleteFunc(sums, func(s quota.Spent) bool { return s.Units == 0 && s.Calls == 0 })
}

// Covers reports whether a query asks for a day of a zone's calendar.
func Covers(q quota.SpendQuery, day string, zone *time.Location) bool {
	if !q.Since.IsZero() && day < DayName(window.At(q.Since), zone) {
		return false
	}
	return q.Until.IsZero() || day <= DayName(window.At(q.Until), zone)
}
