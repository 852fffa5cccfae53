package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// ledger is everything: price book, windows, receipt, spend and verdict.
func ledger(windows func(per time.Duration, period string) string) func(int64, time.Duration, *clock) func() bool {
	return func(limit int64, per time.Duration, c *clock) func() bool {
		period := "day"
		if per == judgedPer {
			period = "minute"
		}
		costs := must(book.Parse("bench.yaml", fmt.Appendf(nil, `
revision: 1
upstreams:
  api:
    pools: {units: {quota: %d, windows: [%s]}}
    methods: {things.list: %d}
`, limit, windows(per, period), weight), nil))
		var told quota.Clock
		if !c.real {
			told = quotaClock{c}
		}
		l := must(quota.New(costs, memstore.New(&memstore.Options{Clock: told}), &quota.Options{Clock: told}))
		ctx := context.Background()
		return func() bool {
			_, err := l.Reserve(ctx, quota.Call{Method: "things.list"})
			return err == nil
		}
	}
}

func oneWindow(per time.Duration, _ string) string { return fmt.Sprintf("{per: %s}", per) }

// twoWindows is what an upstream's day needs: the trailing one, and its own.
func twoWindows(per time.Duration, period string) string {
	return fmt.Sprintf("{per: %s}, {per: %s, zone: America/Los_Angeles}", per, period)
}

// quotaClock lets a ledger read a moved clock.
type quotaClock struct{ c *clock }

func (q quotaClock) Now() time.Time { return q.c.time() }

func (q quotaClock) Sleep(_ context.Context, d time.Duration) error {
	q.c.wait(d)
	return nil
}
