package main

import (
	"testing"
	"time"
)

// weight is what every reserve asks for: calls cost more than one unit.
const weight = 3

// A clock tells a contender the time.
type clock struct {
	now  time.Time // stands still until it is moved,
	real bool      // unless it is the machine's
}

func (c *clock) time() time.Time {
	if c.real {
		return time.Now()
	}
	return c.now
}

// wait lets d pass: it sleeps, or moves the simulated time.
func (c *clock) wait(d time.Duration) {
	if c.real {
		time.Sleep(d)
	} else {
		c.now = c.now.Add(d)
	}
}

// A contender is one way to limit.
type contender struct {
	name string
	// open makes a limiter that admits limit units per duration, and returns its
	// reserve, which takes weight units at the clock's time.
	open func(limit int64, per time.Duration, c *clock) func() bool
	// The scale on which it is timed.
	limit int64
	step  time.Duration // the clock moves by it from call to call; zero is the machine's clock
	// unmoved contenders always read the machine's clock. They are measured in
	// real time.
	unmoved bool
	// calendar windows promise a period, not a trailing window.
	calendar bool
}

// bench times reserves that are all granted.
func (c contender) bench(b *testing.B) {
	clk := &clock{now: start, real: c.step == 0}
	reserve := c.open(c.limit, 24*time.Hour, clk)
	b.ReportAllocs()
	for b.Loop() {
		clk.now = clk.now.Add(c.step)
		if !reserve() {
			b.Fatal("refused")
		}
	}
}

// start is an instant on no boundary.
var start = time.Date(2026, 11, 18, 12, 30, 30, 500_000_000, time.UTC)
