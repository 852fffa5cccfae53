package main

import (
	"strings"
	"testing"
	"time"
)

// BenchmarkReserve is the table's numbers for benchstat: with -count=10, and
// the worst that each contender admits beside its speed.
func BenchmarkReserve(b *testing.B) {
	for _, g := range groups {
		for _, c := range g.contenders {
			worst := -1.0
			b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
				c.bench(b)
				if worst < 0 {
					worst = c.worst()
				}
				b.ReportMetric(worst, "admitted/limit")
			})
		}
	}
}

// BenchmarkTransport is what metering takes of a call that takes no time itself.
func BenchmarkTransport(b *testing.B) {
	for _, w := range wrappings {
		b.Run(strings.ReplaceAll(w.name, " ", "_"), func(b *testing.B) {
			call := w.overNothing()
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// BenchmarkThrottle is what a request costs in ServeHTTP.
func BenchmarkThrottle(b *testing.B) {
	for _, g := range guards {
		b.Run(strings.ReplaceAll(g.name, " ", "_"), func(b *testing.B) {
			call := g.alone()
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// TestJudge holds the judge to what is known of contenders: a token bucket
// admits twice its burst in a window, and so does a day at midnight.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name        string
		c           contender
		least, most float64
	}{
		{"AllowN admits twice", contender{open: allowN}, 1.9, 2},
		{"GCRA admits twice", contender{open: throttledGCRA}, 1.9, 2},
		{"the estimate admits nearly twice", contender{open: bare(counter)}, 1.5, 2},
		{"a calendar admits twice", contender{open: bare(calendar)}, 1.9, 2},
		{"the ring admits the limit", contender{open: bare(ring)}, 1, 1},
		{"the log admits the limit", contender{open: bare(log)}, 1, 1},
		{"the ledger admits the limit", contender{open: ledger(twoWindows)}, 1, 1},
		{"no limit at all is seen", contender{open: unlimited}, 10, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.c.worst(); got < tt.least || got > tt.most {
				t.Errorf("admitted %.2f of the limit in a trailing window, want %.2f to %.2f", got, tt.least, tt.most)
			}
		})
	}
}

func TestWindowsDoNotAllocate(t *testing.T) {
	for _, c := range groups[0].contenders {
		if !strings.HasPrefix(c.name, "window.") {
			continue
		}
		clk := &clock{now: start}
		reserve := c.open(c.limit, 24*time.Hour, clk)
		allocs := testing.AllocsPerRun(20_000, func() {
			clk.wait(c.step)
			if !reserve() {
				t.Fatalf("%s refused a call", c.name)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per call, want none", c.name, allocs)
		}
	}
}

// unlimited grants everything.
func unlimited(int64, time.Duration, *clock) func() bool { return func() bool { return true } }
