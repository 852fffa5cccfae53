package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

// spendDays is how many days of spend are kept: those that were charged, with a
// margin over what is promised. Their number decides rather than their age: a clock
// that had been far ahead would make all of them old at once.
const spendDays = storekit.SpendDays + 6

// spend counts who spent a pool's units, day by day.
type spend struct {
	tallies []tally
	free    []int32 // tallies of days that were dropped
	days    map[string]day

	// the day and labels of the last charge, which are mostly the next one's
	start, end window.Instant
	zone       *time.Location
	today      day
	labels     quota.Labels
	last       int32
	known      bool // last is the tally of labels today
}

// day finds the tally of labels.
type day map[quota.Labels]int32

// tally is what one set of labels spent on one day.
type tally struct{ units, calls int64 }

// find returns the number of the tally of labels on the day of an instant.
func (s *spend) find(now, at window.Instant, zone *time.Location, l *quota.Labels) int32 {
	if at < s.start || at >= s.end || zone != s.zone {
		s.enter(now, at, zone)
	} else if s.known && s.labels == *l {
		return s.last
	}
	labels := *l
	n, ok := s.today[labels]
	if !ok {
		if len(s.today) >= storekit.MaxSpendLabels {
			labels = quota.OtherLabels
			n, ok = s.today[labels]
		}
		if !ok {
			n = s.open()
			s.today[labels] = n
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

// enter makes the day of an instant today, and drops another one if there are too
// many.
func (s *spend) enter(now, at window.Instant, zone *time.Location) {
	if s.days == nil {
		s.days = make(map[string]day)
	}
	s.zone, s.known = zone, false
	s.start, s.end = storekit.DayOf(at, zone)
	name := storekit.DayName(s.start, zone)
	s.today = s.days[name]
	if s.today != nil {
		return
	}
	if len(s.days) >= spendDays {
		s.drop(storekit.DayName(now.Add(48*time.Hour), zone))
	}
	s.today = make(day)
	s.days[name] = s.today
}

// drop forgets the last day if it is beyond ahead: the clock had been there, and
// nobody will ask for it soon; else the first.
func (s *spend) drop(ahead string) {
	names := slices.Sorted(maps.Keys(s.days))
	name := names[0]
	if last := names[len(names)-1]; last > ahead {
		name = last // its tallies are not used again: a receipt from there may live on
	} else {
		for _, n := range s.days[name] {
			s.free = append(s.free, n)
		}
	}
	delete(s.days, name)
}

// read appends the days that a query asks for.
func (s *spend) read(all []quota.Spent, p quota.Pool, q quota.SpendQuery) []quota.Spent {
	for name, d := range s.days {
		if !storekit.Covers(q, name, s.zone) {
			continue
		}
		for labels, n := range d {
			if t := s.tallies[n]; t != (tally{}) {
				all = append(all, quota.Spent{Pool: p, Day: name, Labels: labels, Units: t.units, Calls: t.calls})
			}
		}
	}
	return all
}
