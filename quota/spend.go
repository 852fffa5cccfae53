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

// spendLabels are the labels by which spend can be summed.
var spendLabels = map[Dimension]func(*Spent) *string{
	ByMethod: func(s *Spent) *string { return &s.Labels.Method },
	ByModel:  func(s *Spent) *string { return &s.Model },
	ByKey:    func(s *Spent) *string { return &s.Key },
	ByJob:    func(s *Spent) *string { return &s.Labels.Job },
	ByRegion: func(s *Spent) *string { return &s.Labels.Region },
	ByClass:  func(s *Spent) *string { return &s.Labels.Class },
}

// sumSpent sums spend over every dimension that is not in by. Without by it changes
// nothing. Units of different pools are never added up. Units of [Others] have that name in
// each label, because they have no other one.
func sumSpent(all []Spent, by ...Dimension) ([]Spent, error) {
	if len(by) == 0 {
		return all, nil
	}
	keep := make(map[Dimension]bool, len(by))
	for _, d := range by {
		keep[d] = true
		if spendLabels[d] == nil && d != ByPool && d != ByDay && d != ByHour && d != ByAccount {
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
		for by, label := range spendLabels {
			if keep[by] && s.Labels.Method == Others {
				*label(&key) = Others
			} else if keep[by] {
				*label(&key) = *label(&s)
			}
		}
		if s.Labels.Reason != "" && keep[ByMethod] {
			key.Labels.Reason = s.Labels.Reason
		}
		sum := sums[key]
		if sum == nil {
			sum = new(key)
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
