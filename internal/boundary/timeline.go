package boundary

import "time"

// Timeline is what is asked of a limiter, and when.
type Timeline struct {
	Name  string // for programs
	About string // for people
	Steps []Step
}

// Step is a burst of requests at one instant.
type Step struct {
	After time.Duration // the boundary; before it is negative
	Ask   int           // so many,
	Give  bool          // or fewer: as many as are accepted
}

// Bursts is the boundary demonstration: a full burst a tenth of a window before a
// boundary, and another one as long after it.
func Bursts(r Rate) Timeline {
	return Timeline{"bursts", "a full burst just before a boundary, another just after", []Step{
		{After: -r.Per / 10, Ask: r.Limit},
		{After: r.Per / 10, Ask: r.Limit},
	}}
}

// Greed begins with a full burst so shortly before a boundary, and then takes all
// that comes free as soon as it does, for two windows. A limiter that refills gives
// nearly as much again before the burst is a window old.
func Greed(r Rate, before time.Duration) Timeline {
	t := Timeline{"greed", "a full burst, then whatever comes free, at once", []Step{{After: -before, Ask: r.Limit}}}
	steps := min(max(r.Limit, 10), 100) // in a window
	for i := range 2*steps + 1 {
		t.Steps = append(t.Steps, Step{After: r.Per * time.Duration(i) / time.Duration(steps), Ask: r.Limit, Give: true})
	}
	return t
}
