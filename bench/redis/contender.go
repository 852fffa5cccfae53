package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// held is what every pool holds before it is timed, and when its memory is read.
const held = 10_000

// costs are the units that a call takes.
var costs = [...]int64{1, 100}

// A contender is one way to limit by what is in Redis.
type contender struct {
	name string
	// open puts held units into a pool whose keys begin with a prefix, and returns
	// the call that is timed.
	open func(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error)
	// fill puts held units in by calls of that cost, for the memory they take; nil
	// is open, where how they came makes no difference.
	fill func(ctx context.Context, client *redis.Client, cost int64) error
	// yardstick is what others are compared with.
	yardstick bool
}

// A call is right if it was granted, or refused, as the contender is meant to.
type call func(ctx context.Context) error

const (
	nothing   = "a script that does nothing"
	gcra      = "redis_rate AllowN"
	entries   = "sorted-set log, a member per unit"
	one       = "ours: 1 window"
	full      = "ours: 2 windows, receipt, spend"
	saturated = "ours: 2 windows, refused"
	oneFull   = "ours: 1 window, refused"
	client    = "ours: a key of 100,000, 2 counters"
)

var contenders = []contender{
	{name: nothing, open: openNothing, yardstick: true},
	{name: gcra, open: openGCRA(roomy, true), yardstick: true},
	{name: gcra + ", refused", open: openGCRA(held, false), yardstick: true},
	{name: entries, open: openLog, fill: fillLog, yardstick: true},
	{name: one, open: openMember(day)},
	{name: client, open: openClient(1, roomy, true)},
	{name: client + ", one of 1,000", open: openClient(1000, roomy, true)},
	{name: client + ", refused", open: openClient(1, held, false)},
	{name: "ours: 2 windows", open: openMember(day, pacificDay)},
	{name: full, open: openPool(true), fill: fillPool},
	{name: full + ", id looked up", open: openPool(false)},
	{name: "its six commands, alone", open: openCommands},
	{name: saturated, open: openRefusal},
	{name: oneFull, open: openMemberRefusal},
}
