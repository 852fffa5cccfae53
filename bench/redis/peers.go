package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// roomy is a limit that no timed call comes near.
const roomy = 1<<31 - 1

var errVerdict = errors.New("granted what it should have refused, or the other way round")

func openNothing(_ context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
	script := redis.NewScript("return 1")
	return func(ctx context.Context) error {
		return script.Run(ctx, client, []string{prefix + "units"}, cost).Err()
	}, nil
}

// commands are those of a grant with receipt and spend, and nothing else: what any script
// that keeps both has to pay.
var commands = redis.NewScript(`
redis.call('TIME')
redis.call('GETRANGE', KEYS[1], '0', '95')
redis.call('HINCRBY', KEYS[2], ARGV[1], '1')
redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[3])
redis.call('SETRANGE', KEYS[1], '56', ARGV[4])
redis.call('SET', KEYS[3], ARGV[5], 'PX', '3600000')
return 1`)

func openCommands(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
	if err := client.Set(ctx, prefix+"page", strings.Repeat("x", 6000), 0).Err(); err != nil {
		return nil, err
	}
	numbers, receipt := strings.Repeat("n", 40), strings.Repeat("r", 150)
	label := "videos.list\x1ftrending\x1fDE\x1fbackfill\x1f"
	var next atomic.Int64
	return func(ctx context.Context) error {
		keys := []string{prefix + "page", prefix + "spend", prefix + "receipt:" + strconv.FormatInt(next.Add(1), 10)}
		return commands.Run(ctx, client, keys, "c"+label, "u"+label, cost, numbers, receipt).Err()
	}, nil
}

// openGCRA is a limit per day that can be used up at once: redis_rate's own
// idea of a quota.
func openGCRA(limit int, granted bool) func(context.Context, *redis.Client, string, int64) (call, error) {
	return func(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
		limiter := redis_rate.NewLimiter(client)
		l := redis_rate.Limit{Rate: limit, Burst: limit, Period: 24 * time.Hour}
		if !granted {
			l.Period *= 30 // else a unit comes back while it is timed
		}
		if _, err := limiter.AllowN(ctx, prefix+"units", l, held); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			res, err := limiter.AllowN(ctx, prefix+"units", l, int(cost))
			if err == nil && (res.Allowed > 0) != granted {
				err = errVerdict
			}
			return err
		}, nil
	}
}

//go:embed log.lua
var logSource string

var logScript = redis.NewScript(logSource)

// openLog is the sliding log as it is usually written.
func openLog(ctx context.Context, client *redis.Client, prefix string, cost int64) (call, error) {
	if err := logger(client, prefix, held)(ctx); err != nil {
		return nil, err
	}
	return logger(client, prefix, cost), nil
}

// fillLog leaves held units behind, each call with an id of its own.
func fillLog(ctx context.Context, client *redis.Client, cost int64) error {
	return times(ctx, held/cost, logger(client, "", cost))
}

func logger(client *redis.Client, prefix string, cost int64) call {
	ids := newIDs()
	return func(ctx context.Context) error {
		granted, err := logScript.Run(ctx, client, []string{prefix + "units"}, roomy, (24 * time.Hour).Microseconds(), cost, ids.next()).Int()
		if err == nil && granted != 1 {
			err = errVerdict
		}
		return err
	}
}

// times calls so often.
func times(ctx context.Context, n int64, do call) error {
	for range n {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ids names calls as a transport does: different ones, 16 bytes long.
type ids struct {
	prefix string
	n      atomic.Int64
}

func newIDs() *ids { return &ids{prefix: strconv.FormatInt(time.Now().UnixMicro(), 36)[2:8]} }

func (i *ids) next() string { return fmt.Sprintf("%s%010x", i.prefix, i.n.Add(1)) }
