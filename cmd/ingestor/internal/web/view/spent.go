package view

import (
	"slices"

	"github.com/headroom-quota/headroom/quota"
)

// Dimensions are the dimensions that spend can be summed by.
var Dimensions = []quota.Dimension{quota.ByMethod, quota.ByJob, quota.ByRegion, quota.ByClass, quota.ByAccount, quota.ByDay}

// Spent is the spend of one set of labels in a pool. Only the labels it was summed by are
// set.
type Spent struct {
	Pool    string `json:"pool"`
	Day     string `json:"day,omitempty"`
	Account string `json:"account,omitempty"`
	Method  string `json:"method,omitempty"`
	Job     string `json:"job,omitempty"`
	Region  string `json:"region,omitempty"`
	Class   string `json:"class,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Units   int64  `json:"units"`
	Calls   int64  `json:"calls"`
}

// Spend returns spend for JSON, as it was summed by these dimensions.
func Spend(all []quota.Spent, by []quota.Dimension) []Spent {
	views := make([]Spent, 0, len(all))
	for _, s := range all {
		v := Spent{
			Pool: s.Pool.Upstream + "/" + s.Pool.Name, Day: s.Day, Method: s.Labels.Method, Job: s.Labels.Job,
			Region: s.Labels.Region, Class: s.Labels.Class, Reason: s.Labels.Reason, Units: s.Units, Calls: s.Calls,
		}
		if slices.Contains(by, quota.ByAccount) {
			v.Account = s.Pool.Account
		}
		clean(&v.Pool, &v.Account, &v.Method, &v.Job, &v.Region, &v.Class, &v.Reason)
		views = append(views, v)
	}
	return views
}

// SpendTable returns a row for each set of labels, with a column for each dimension.
func SpendTable(all []Spent, by []quota.Dimension) Table {
	columns := []column[Spent]{{Column{Name: "pool", Long: true}, func(s *Spent) any { return s.Pool }}}
	for _, d := range by {
		columns = append(columns, column[Spent]{Column{Name: string(d), Long: d != quota.ByDay}, func(s *Spent) any {
			switch label := s.Label(d); {
			case label != "":
				return label
			case s.Reason != "":
				return "(correction)"
			}
			return "-"
		}})
	}
	return table(append(columns, []column[Spent]{
		{Column{Name: "units", Number: true}, func(s *Spent) any {
			if text := Amount(s.Pool, s.Units); text != Number(s.Units) {
				return text // money
			}
			return s.Units
		}},
		{Column{Name: "calls", Number: true}, func(s *Spent) any { return s.Calls }},
		{Column{Name: "reason", Long: true}, func(s *Spent) any { return text(s.Reason) }},
	}...), all)
}

// Label returns the label of a dimension.
func (s *Spent) Label(d quota.Dimension) string {
	switch d {
	case quota.ByMethod:
		return s.Method
	case quota.ByJob:
		return s.Job
	case quota.ByRegion:
		return s.Region
	case quota.ByClass:
		return s.Class
	case quota.ByAccount:
		return s.Account
	case quota.ByDay:
		return s.Day
	}
	return s.Pool
}
