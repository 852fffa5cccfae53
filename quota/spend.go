package quota

import (
	"cmp"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/quota/window"
)

// SortSpent puts spend in the order in which stores return it: by day, the
// newest first, then by pool, then the largest first.
func SortSpent(all []Spent) {
	slices.SortFunc(all, func(a, b Spent) int {
		return cmp.Or(
			cmp.Compare(b.Day, a.Day),
			cmp.Compare(a.Pool.String(), b.Pool.String()),
			cmp.Compare(b.Units, a.Units),
			cmp.Compare(a.Labels.Method, b.Labels.Method),
			cmp.Compare(a.Labels.Job, b.Labels.Job),
			cmp.Compare(a.Labels.Region, b.Labels.Region),
			cmp.Compare(a.Labels.Class, b.Labels.Class),
			cmp.Compare(a.Labels.Reason, b.Labels.Reason),
		)
	})
}

// DayOf returns the day of a zone's calendar that an instant falls in; nil is
// UTC.
func DayOf(at window.Instant, zone *time.Location) (start, end window.Instant) {
	if zone == nil {
		zone = time.UTC
	}
	return window.Spec{Period: window.Day, Zone: zone}.Bounds(at)
}

// DayName names the day of a zone's calendar that an instant falls in:
// 2026-11-20.
func DayName(at window.Instant, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	return at.Time().In(zone).Format(time.DateOnly)
}

// Covers reports whether a query asks for a day of a zone's calendar.
func (q SpendQuery) Covers(day string, zone *time.Location) bool {
	if !q.Since.IsZero() && day < DayName(window.At(q.Since), zone) {
		return false
	}
	return q.Until.IsZero() || day <= DayName(window.At(q.Until), zone)
}

// Dimension is one way to look at spend.
type Dimension string

// The dimensions of spend.
const (
	ByPool    Dimension = "pool"
	ByDay     Dimension = "day"
	ByMethod  Dimension = "method"
	ByJob     Dimension = "job"
	ByRegion  Dimension = "region"
	ByClass   Dimension = "class"
	ByAccount Dimension = "account"
)

// SumSpent sums spend over every dimension that is not in by; without by it
// changes nothing. A pool's units never add up with another's: pools stay apart.
func SumSpent(all []Spent, by ...Dimension) ([]Spent, error) {
	if len(by) == 0 {
		return all, nil
	}
	keep := make(map[Dimension]bool, len(by))
	for _, d := range by {
		switch d {
		case ByPool, ByDay, ByMethod, ByJob, ByRegion, ByClass, ByAccount:
			keep[d] = true
		default:
			return nil, BadInput("spend has no dimension %q; it has pool, day, method, job, region, class, account", string(d))
		}
	}
	sums := make(map[Spent]*Spent)
	for _, s := range all {
		key := Spent{Pool: s.Pool}
		if !keep[ByAccount] {
			key.Pool.Account = ""
		}
		if keep[ByDay] {
			key.Day = s.Day
		}
		for _, l := range []struct {
			by       Dimension
			from, to *string
		}{
			{ByMethod, &s.Labels.Method, &key.Labels.Method},
			{ByJob, &s.Labels.Job, &key.Labels.Job},
			{ByRegion, &s.Labels.Region, &key.Labels.Region},
			{ByClass, &s.Labels.Class, &key.Labels.Class},
		} {
			if keep[l.by] {
				*l.to = *l.from
			}
		}
		if s.Labels.Reason != "" && keep[ByMethod] {
			key.Labels.Reason = s.Labels.Reason
		}
		sum := sums[key]
		if sum == nil {
			sum = &Spent{Pool: key.Pool, Day: key.Day, Labels: key.Labels}
			sums[key] = sum
		}
		sum.Units += s.Units
		sum.Calls += s.Calls
	}
	summed := make([]Spent, 0, len(sums))
	for _, s := range sums {
		summed = append(summed, *s)
	}
	SortSpent(summed)
	return summed, nil
}
