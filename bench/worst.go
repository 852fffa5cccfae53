package main

import (
	"time"

	"github.com/headroom-quota/headroom/internal/boundary"
)

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
	var grants []time.Time
	ask := func(times int) {
		for range times {
			if !reserve() {
				return
			}
			grants = append(grants, clk.time())
		}
	}
	step := per / instants
	ask(1)
	if pause > 0 {
		clk.wait(time.Duration(pause)*step - step/4)
	}
	for range 2 * instants {
		ask(judgedLimit)
		clk.wait(step)
	}
	return float64(weight*boundary.Worst(grants, per).Accepted) / judgedLimit
}
