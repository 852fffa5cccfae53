package main

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"golang.org/x/time/rate"
)

// allowN is the yardstick: a token bucket that refills in per.
func allowN(limit int64, per time.Duration, c *clock) func() bool {
	l := rate.NewLimiter(rate.Limit(float64(limit)/per.Seconds()), int(limit))
	return func() bool { return l.AllowN(c.time(), weight) }
}

// throttledGCRA is throttled's limiter on its store in memory.
func throttledGCRA(limit int64, per time.Duration, c *clock) func() bool {
	store := must(memstore.New(0))
	store.SetTimeNow(c.time)
	l := must(throttled.NewGCRARateLimiterCtx(throttled.WrapStoreWithContext(store), throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(limit), per),
		MaxBurst: int(limit) - 1, // as many at once as the limit
	}))
	ctx := context.Background()
	return func() bool {
		limited, _, err := l.RateLimitCtx(ctx, "units", weight)
		return err == nil && !limited
	}
}

// goLimiter takes one token at a time, so a call of three units is three takes,
// which are not atomic.
func goLimiter(limit int64, per time.Duration, _ *clock) func() bool {
	store := must(memorystore.New(&memorystore.Config{Tokens: uint64(limit), Interval: per}))
	ctx := context.Background()
	return func() bool {
		for range weight {
			if _, _, _, ok, err := store.Take(ctx, "units"); !ok || err != nil {
				return false
			}
		}
		return true
	}
}

// must is for limiters that are made from constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
