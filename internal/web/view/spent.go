package view

import (
	"slices"

	"github.com/headroom-quota/headroom/quota"
)

// Dimensions are what spend is told by.
var Dimensions = []quota.Dimension{quota.ByMethod, quota.ByJob, quota.ByRegion, quota.ByClass, quota.ByAccount, quota.ByDay}

// Spent is what one set of labels spent of a pool. Of the labels it has those that
// it was summed by.
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

// Spend shows spend that was summed by dimensions.
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
		views = append(views, v)
	}
	return views
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
