package main

import "time"

// The scale on which contenders are judged. The limit is a multiple of weight.
const (
	judgedLimit = 300
	judgedPer   = time.Minute
	instants    = 60 // in a window
)

// worst returns the most that was admitted in any trailing window, as a
// multiple of the limit. Each contender meets the same bursts: one call, then
// nothing for a while, then as many calls as it grants, again and again for two
// windows. The pause is tried at every length up to two windows, so one of them
// ends just before whatever boundary the limiter keeps.
func (c contender) worst() float64 {
	if c.unmoved {
		return c.burst(&clock{real: true}, time.Second, instants-1)
	}
	var worst float64
	for pause := range 2 * instants {
		worst = max(worst, c.burst(&clock{now: start}, judgedPer, pause))
	}
	return worst
}

// burst returns the most that was admitted in a trailing window when the bursts
// begin after a pause.
func (c contender) burst(clk *clock, per time.Duration, pause int) float64 {
	reserve := c.open(judgedLimit, per, clk)
	t := trail{per: per}
	step := per / instants
	t.reserve(reserve, clk, 1)
	if pause > 0 {
		clk.wait(time.Duration(pause)*step - step/4)
	}
	for range 2 * instants {
		t.reserve(reserve, clk, judgedLimit)
		clk.wait(step)
	}
	return float64(t.most) / judgedLimit
}

// A trail is the naive account of what was granted when.
type trail struct {
	per    time.Duration
	grants []time.Time
	inside int // units in the trailing window
	most   int
}

// reserve asks until it is refused, at most so many times.
func (t *trail) reserve(reserve func() bool, clk *clock, times int) {
	for range times {
		if !reserve() {
			return
		}
		now := clk.time()
		t.grants = append(t.grants, now)
		t.inside += weight
		for now.Sub(t.grants[0]) >= t.per {
			t.grants = t.grants[1:]
			t.inside -= weight
		}
		t.most = max(t.most, t.inside)
	}
}
