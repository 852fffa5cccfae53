package boundary

import "time"

// Timeline is a list of bursts of requests.
type Timeline struct {
	Name  string // for programs
	About string // for people
	Steps []Step
	Since time.Time // a time at which windows begin; zero: 1970
}

// Step is a burst of requests at one time.
type Step struct {
	After time.Duration // time since the boundary, negative before it
	Ask   int           // number of requests
	Give  bool          // whether to stop at the first refusal
}

// Bursts sends a full burst a tenth of a window before the boundary, and another one a tenth
// after it.
func Bursts(r Rate) Timeline {
	return Timeline{Name: "bursts", About: "a full burst just before a boundary, another just after", Steps: []Step{
		{After: -r.Per / 10, Ask: r.Limit},
		{After: r.Per / 10, Ask: r.Limit},
	}}
}

// Greed sends a full burst just before the boundary, and then takes every unit as soon as it
// is free, for two windows. A limiter that refills gives nearly as much again before the
// burst is a window old.
func Greed(r Rate, before time.Duration) Timeline {
	t := Timeline{Name: "greed", About: "a full burst, then whatever comes free, at once", Steps: []Step{{After: -before, Ask: r.Limit}}}
	steps := min(max(r.Limit, 10), 100) // in a window
	for i := range 2*steps + 1 {
		t.Steps = append(t.Steps, Step{After: r.Per * time.Duration(i) / time.Duration(steps), Ask: r.Limit, Give: true})
	}
	return t
}
