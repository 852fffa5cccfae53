package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// spendHours is how many hours of spend are kept: those that were charged, with a margin
// over what is promised, for days of 25 hours. Their number decides rather than their
// age: a clock that had been far ahead would make all of them old at once.
const spendHours = (storekit.SpendDays + 6) * 25

// spend counts who spent a pool's units, hour by hour.
type spend struct {
	tallies []tally
	free    []int32 // tallies of hours that were dropped
	hours   map[hourKey]hour

	// the hour and labels of the last charge, which are mostly the next one's
	start, end window.Instant
	zone       *time.Location
	this       hour
	labels     quota.Labels
	last       int32
	known      bool // last is the tally of labels in this hour
}

// hourKey is an hour of UTC, or the part of it that is in a day of the pool's calendar at
// the time.
type hourKey struct {
	day  string
	hour window.Instant
}

func (k hourKey) compare(l hourKey) int {
	return cmp.Or(cmp.Compare(k.day, l.day), cmp.Compare(k.hour, l.hour))
}

// hour finds the tally of labels.
type hour map[quota.Labels]int32

// tally is what one set of labels spent in one hour.
type tally struct{ units, calls int64 }

// find returns the number of the tally of labels in the hour of an instant.
func (s *spend) find(now, at window.Instant, zone *time.Location, l *quota.Labels) int32 {
	if at < s.start || at >= s.end || zone != s.zone {
		s.enter(now, at, zone)
	} else if s.known && s.labels == *l {
		return s.last
	}
	labels := *l
	n, ok := s.this[labels]
	if !ok {
		if len(s.this) >= storekit.MaxSpendLabels {
			labels = quota.OtherLabels
			n, ok = s.this[labels]
		}
		if !ok {
			n = s.open()
			s.this[labels] = n
		}
	}
	s.labels, s.last, s.known = labels, n, true
	return n
}

// open returns the number of an empty tally.
func (s *spend) open() int32 {
	if last := len(s.free) - 1; last >= 0 {
		n := s.free[last]
		s.free = s.free[:last]
		s.tallies[n] = tally{}
		return n
	}
	s.tallies = append(s.tallies, tally{})
	return int32(len(s.tallies) - 1)
}

// enter makes the hour of an instant this one, and drops another one if there are too
// many.
func (s *spend) enter(now, at window.Instant, zone *time.Location) {
	if s.hours == nil {
		s.hours = make(map[hourKey]hour)
	}
	s.zone, s.known = zone, false
	s.start, s.end, _ = storekit.HourOf(at, zone)
	key := hourKey{storekit.DayName(at, zone), storekit.UTCHour(at)}
	s.this = s.hours[key]
	if s.this != nil {
		return
	}
	if len(s.hours) >= spendHours {
		s.drop(storekit.DayName(now.Add(48*time.Hour), zone))
	}
	s.this = make(hour)
	s.hours[key] = s.this
}

// drop forgets the last hour if it is beyond ahead: the clock had been there, and
// nobody will ask for it soon; else the first.
func (s *spend) drop(ahead string) {
	keys := slices.SortedFunc(maps.Keys(s.hours), hourKey.compare)
	key := keys[0]
	if last := keys[len(keys)-1]; last.day > ahead {
		key = last // its tallies are not used again: a receipt from there may live on
	} else {
		for _, n := range s.hours[key] {
			s.free = append(s.free, n)
		}
	}
	delete(s.hours, key)
}

// read appends what a query asks for.
func (s *spend) read(all []quota.Spent, p quota.Pool, q quota.SpendQuery) []quota.Spent {
	var found []quota.Spent
	for key, h := range s.hours {
		one := quota.Spent{Pool: p, Day: key.day}
		if q.Hours {
			one.Hour = key.hour.Time()
		}
		if !storekit.Covers(q, key.day, s.zone) || q.Hours && !one.Hour.Add(time.Hour).After(q.Since) {
			continue
		}
		for labels, n := range h {
			t := s.tallies[n]
			one.Labels, one.Units, one.Calls = labels, t.units, t.calls
			found = append(found, one)
		}
	}
	return append(all, storekit.Sum(found)...)
}
