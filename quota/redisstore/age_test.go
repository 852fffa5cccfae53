package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// aging does all keys at one instant. A page and its logs have the same expiry: if the
// page was given a longer one and its log was gone a millisecond later, the page would
// count for ever what only the log can take out.
var aging = redis.NewScript(`
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local left = redis.call('PTTL', key)
  if left >= 0 then -- else it never goes
    redis.call('PEXPIRE', key, left - ARGV[2])
  end
end
return 0`)

// age brings the keys of a store nearer to their expiry, as if the server had lived
// through what the clock of the scripts has; or farther from it, if d is negative.
func age(t testing.TB, client redis.UniversalClient, prefix string, d time.Duration) {
	t.Helper()
	each := func(ctx context.Context, c *redis.Client) error {
		return aging.Run(ctx, c, nil, prefix+"*", d.Milliseconds()).Err()
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
