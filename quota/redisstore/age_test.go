package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// age brings the keys of a store nearer to their expiry, as if the server had lived
// through what the clock of the scripts has; or farther from it, if d is negative.
func age(t testing.TB, client redis.UniversalClient, prefix string, d time.Duration) {
	t.Helper()
	each := func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, prefix+"*").Result()
		for _, key := range keys {
			left, err := c.PTTL(ctx, key).Result()
			if err != nil {
				return err
			}
			if left < 0 { // it is gone, or never goes
				continue
			}
			if err := c.PExpire(ctx, key, left-d).Err(); err != nil {
				return err
			}
		}
		return err
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(bg, each)
	case *redis.Client:
		err = each(bg, c)
	}
	if err != nil {
		t.Fatal(err)
	}
}
