package main

import (
	"time"
)

// A group is compared with its own first contender.
type group struct {
	title      string
	contenders []contender
}

var groups = []group{
	{
		"The time is an argument: 10,000 units per 24h, nearly all of them spent, a call every 28s of a moved clock",
		moved([]contender{
			{name: "x/time/rate AllowN(t, 3)", open: allowN},
			{name: "window.Ring Take", open: bare(ring)},
			{name: "window.Log Take", open: bare(log)},
			{name: "window.Counter Take", open: bare(counter)},
			{name: "window.Calendar Take", open: bare(calendar), calendar: true},
			{name: "window.Ring Take, in a mutex", open: locked(ring)},
		}),
	},
	{
		"The limiter reads the machine's clock, and is safe for concurrent use: a burst of calls",
		burst([]contender{
			{name: "x/time/rate AllowN(time.Now(), 3)", open: allowN},
			{name: "throttled RateLimitCtx(3), memstore", open: throttledGCRA},
			{name: "go-limiter Take x 3, memorystore", open: goLimiter, unmoved: true},
			{name: "window.Ring Take, in a mutex", open: locked(ring)},
			{name: "Ledger.Reserve on memstore, one window", open: ledger(oneWindow)},
			{name: "Ledger.Reserve on memstore, two windows", open: ledger(twoWindows)},
		}),
	},
}

// moved spends 9,258 units in a day, and 9,643 in the one that has 25 hours.
func moved(cs []contender) []contender {
	for i := range cs {
		cs[i].limit, cs[i].step = 10_000, 28*time.Second
	}
	return cs
}

func burst(cs []contender) []contender {
	for i := range cs {
		cs[i].limit = 1<<31 - 1
	}
	return cs
}
