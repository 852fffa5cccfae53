package peers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota"
)

//go:embed lua/gcra.lua
var gcraLua string

var gcraScript = redis.NewScript(gcraLua)

// Redis keeps limiters in Redis, under keys with a prefix.
type Redis struct {
	client redis.UniversalClient
	prefix string
}

// patience is the timeout of a server.
const patience = 2 * time.Second

// NewRedis returns the limiters of a prefix. It must not contain the pattern characters of
// Redis: *, ?, [ and \.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	if c, ok := client.(*redis.Client); ok {
		c = c.WithTimeout(patience)
		c.Options().ContextTimeoutEnabled = true // of the copy
		client = c
	}
	return &Redis{client, prefix}
}

// Fixed implements [Home]: a key for each window, as the documentation of INCR has it.
func (r *Redis) Fixed(name string, rate boundary.Rate) boundary.Limiter {
	return func(ctx context.Context) (time.Time, bool, error) {
		now, err := r.client.Time(ctx).Result()
		if err != nil {
			return time.Time{}, false, err
		}
		key := r.prefix + name + ":" + strconv.FormatInt(windowOf(now, rate), 10)
		var count *redis.IntCmd
		_, err = r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			count = p.Incr(ctx, key)
			p.PExpire(ctx, key, rate.Per)
			return nil
		})
		if err != nil {
			return time.Time{}, false, err
		}
		return now, count.Val() <= int64(rate.Limit), nil
	}
}

// GCRA implements [Home].
func (r *Redis) GCRA(name string, rate boundary.Rate) boundary.Limiter {
	every := emission(rate).Microseconds()
	key := r.prefix + name
	return func(ctx context.Context) (time.Time, bool, error) {
		reply, err := gcraScript.Run(ctx, r.client, []string{key}, every, every*int64(rate.Limit)).Int64Slice()
		if err != nil {
			return time.Time{}, false, err
		}
		return time.UnixMicro(reply[1]).UTC(), reply[0] == 1, nil
	}
}

// Clock returns the machine's clock, corrected by the server's as exactly as the round trip
// allows.
func (r *Redis) Clock(ctx context.Context) (quota.Clock, error) {
	var clock serverClock
	best := time.Duration(-1)
	for range 5 { // the shortest round trip is the most exact
		sent := clock.SystemClock.Now()
		there, err := r.client.Time(ctx).Result()
		if err != nil {
			return nil, fmt.Errorf("read the server's clock: %w", err)
		}
		if took := clock.SystemClock.Now().Sub(sent); best < 0 || took < best {
			best, clock.ahead = took, there.Sub(sent.Add(took/2))
		}
	}
	return clock, nil
}

// serverClock is the machine's clock with the offset of the server's.
type serverClock struct {
	quota.SystemClock
	ahead time.Duration
}

// Now implements [quota.Clock].
func (c serverClock) Now() time.Time { return c.SystemClock.Now().Add(c.ahead) }

// Remove deletes every key of the prefix.
func (r *Redis) Remove(ctx context.Context) error {
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return remove(ctx, c, r.prefix) })
	}
	return remove(ctx, r.client, r.prefix)
}

func remove(ctx context.Context, c redis.Cmdable, prefix string) error {
	var all error
	for keys := c.Scan(ctx, 0, prefix+"*", 1000).Iterator(); ; {
		if !keys.Next(ctx) {
			return errors.Join(all, keys.Err())
		}
		all = errors.Join(all, c.Unlink(ctx, keys.Val()).Err()) // one by one, because keys of a cluster are in many slots
	}
}
