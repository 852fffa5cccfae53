package quota

import (
	"cmp"
	"slices"

	"github.com/headroom-quota/headroom/quota/window"
)

// Compare orders spend as stores return it: by day, the newest first, then by pool,
// then the largest first.
func (s Spent) Compare(t Spent) int {
	return cmp.Or(
		cmp.Compare(t.Day, s.Day),
		t.Hour.Compare(s.Hour),
		cmp.Compare(s.Pool.String(), t.Pool.String()),
		cmp.Compare(t.Units, s.Units),
		cmp.Compare(s.Labels.Method, t.Labels.Method),
		cmp.Compare(s.Model, t.Model),
		cmp.Compare(s.Key, t.Key),
		cmp.Compare(s.Labels.Job, t.Labels.Job),
		cmp.Compare(s.Labels.Region, t.Labels.Region),
		cmp.Compare(s.Labels.Class, t.Labels.Class),
		cmp.Compare(s.Labels.Reason, t.Labels.Reason),
	)
}

// Dimension is a label by which spend can be summed.
type Dimension string

// These are the dimensions of spend.
const (
	ByPool    Dimension = "pool"
	ByDay     Dimension = "day"
	ByHour    Dimension = "hour"
	ByMethod  Dimension = "method"
	ByModel   Dimension = "model"
	ByKey     Dimension = "key"
	ByJob     Dimension = "job"
	ByRegion  Dimension = "region"
	ByClass   Dimension = "class"
	ByAccount Dimension = "account"
)

// sumSpent sums spend over every dimension that is not in by. Without by it changes
// nothing. Units of different pools are never added up. Units of [Others] have that name in
// each label, because they have no other one.
func sumSpent(all []Spent, by ...Dimension) ([]Spent, error) {
	if len(by) == 0 {
		return all, nil
	}
	keep := make(map[Dimension]bool, len(by))
	for _, d := range by {
		switch d {
		case ByPool, ByDay, ByHour, ByMethod, ByModel, ByKey, ByJob, ByRegion, ByClass, ByAccount:
			keep[d] = true
		default:
			return nil, BadInput("spend has no dimension %q; it has pool, day, hour, method, model, key, job, region, class, account", string(d))
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
		if keep[ByHour] {
			key.Day, key.Hour = s.Day, s.Hour
		}
		for _, l := range []struct {
			by       Dimension
			from, to *string
		}{
			{ByMethod, &s.Labels.Method, &key.Labels.Method},
			{ByModel, &s.Model, &key.Model},
			{ByKey, &s.Key, &key.Key},
			{ByJob, &s.Labels.Job, &key.Labels.Job},
			{ByRegion, &s.Labels.Region, &key.Labels.Region},
			{ByClass, &s.Labels.Class, &key.Labels.Class},
		} {
			if keep[l.by] {
				*l.to = *l.from
			}
			if keep[l.by] && s.Labels.Method == Others {
				*l.to = Others
			}
		}
		if s.Labels.Reason != "" && keep[ByMethod] {
			key.Labels.Reason = s.Labels.Reason
		}
		sum := sums[key]
		if sum == nil {
			sum = &Spent{Pool: key.Pool, Day: key.Day, Hour: key.Hour, Labels: key.Labels, Model: key.Model, Key: key.Key}
			sums[key] = sum
		}
		sum.Units = min(sum.Units+s.Units, window.MaxUnits)
		sum.Calls += s.Calls
	}
	summed := make([]Spent, 0, len(sums))
	for _, s := range sums {
		summed = append(summed, *s)
	}
	slices.SortFunc(summed, Spent.Compare)
	return summed, nil
}
