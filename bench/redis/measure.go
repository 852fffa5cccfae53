package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// callers are how many call at once.
var callers = [...]int{1, manyCallers}

const manyCallers = 64

// A result is what was measured of a contender.
type result struct {
	contender
	timed  [len(costs)][len(callers)]timed
	memory [len(costs)]memory
}

// timed is by round, or by turn.
type timed struct {
	us     []float64 // of the server, per call
	perSec []float64
}

// memory is what a pool's keys take, in bytes.
type memory struct{ page, receipts, rest int64 }

// bench measures on one server.
type bench struct {
	client *redis.Client
	turns  int
	each   time.Duration
}

// round times all contenders at one cost. They take short turns, so that a slow
// moment of the machine hits all of them. Each time they take them in another order,
// because the one that follows the log pays for the caches that the log has emptied. The
// median of a contender's turns is its round's figure.
func (b *bench) round(ctx context.Context, all []*result, cost int) error {
	if err := b.client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	dos := make([]call, len(all))
	for i, r := range all {
		var err error
		if dos[i], err = r.open(ctx, b.client, fmt.Sprintf("%d:", i), costs[cost]); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if _, err := b.calls(ctx, dos[i], manyCallers, b.each); err != nil { // warms up
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	turns := make([][len(callers)]timed, len(all))
	for range b.turns {
		for n := range callers {
			for _, i := range rand.Perm(len(all)) {
				if err := b.turn(ctx, dos[i], callers[n], &turns[i][n]); err != nil {
					return fmt.Errorf("%s: %w", all[i].name, err)
				}
			}
		}
	}
	for i, r := range all {
		for n := range callers {
			t := &r.timed[cost][n]
			t.us = append(t.us, median(turns[i][n].us))
			t.perSec = append(t.perSec, median(turns[i][n].perSec))
		}
	}
	return nil
}

func (b *bench) turn(ctx context.Context, do call, callers int, t *timed) error {
	if err := b.client.ConfigResetStat(ctx).Err(); err != nil {
		return err
	}
	began := time.Now()
	calls, err := b.calls(ctx, do, callers, b.each)
	if err != nil {
		return err
	}
	took := time.Since(began)
	us, err := b.serverTime(ctx)
	if err != nil {
		return err
	}
	t.us, t.perSec = append(t.us, us/calls), append(t.perSec, calls/took.Seconds())
	return nil
}

// calls runs n callers for the duration long, and returns how many calls they made.
func (b *bench) calls(ctx context.Context, do call, n int, long time.Duration) (float64, error) {
	var all sync.WaitGroup
	counts, errs := make([]int, n), make([]error, n)
	began := time.Now()
	for i := range n {
		all.Go(func() {
			for time.Since(began) < long && errs[i] == nil {
				errs[i] = do(ctx)
				counts[i]++
			}
		})
	}
	all.Wait()
	sum := 0
	for i := range n {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += counts[i]
	}
	return float64(sum), nil
}

// serverTime is what the server says that scripts took it, in microseconds. It is
// divided by our calls, not by the server's: a call may need two scripts.
func (b *bench) serverTime(ctx context.Context) (float64, error) {
	stat, err := info(ctx, b.client, "commandstats", "cmdstat_evalsha:")
	if err != nil {
		return 0, err
	}
	_, stat, _ = strings.Cut(stat, "usec=")
	stat, _, _ = strings.Cut(stat, ",")
	return strconv.ParseFloat(stat, 64)
}

// info returns a line of what the server says of itself.
func info(ctx context.Context, client *redis.Client, section, field string) (string, error) {
	text, err := client.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, field); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("INFO %s has no %s", section, field)
}

// memory is what a pool takes when it holds its units.
func (b *bench) memory(ctx context.Context, c contender, cost int64) (m memory, err error) {
	if err := b.client.FlushAll(ctx).Err(); err != nil {
		return m, err
	}
	if c.fill != nil {
		err = c.fill(ctx, b.client, cost)
	} else {
		_, err = c.open(ctx, b.client, "", cost)
	}
	if err != nil {
		return m, err
	}
	keys, err := b.client.Keys(ctx, "*").Result()
	if err != nil {
		return m, err
	}
	for _, key := range keys {
		bytes, err := b.client.MemoryUsage(ctx, key, 0).Result() // 0: every member, not a sample
		if err != nil {
			return m, err
		}
		switch {
		case strings.Contains(key, ":receipt:"):
			m.receipts += bytes
		case strings.Contains(key, ":spend:"), strings.HasSuffix(key, ":pools"):
			m.rest += bytes
		default:
			m.page += bytes
		}
	}
	return m, nil
}
