// Redis sets Headroom's ledger in Redis beside redis_rate and a sorted-set log,
// all of them on one server that it starts on loopback and ends again.
//
//	go run ./redis
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds, of which the median counts")
	turns := flag.Int("turns", 10, "turns of each contender in a round, of which the median counts")
	each := flag.Duration("each", 20*time.Millisecond, "time of a turn")
	only := flag.String("only", "", "contenders whose names hold this, beside those they are compared with; goals are not judged then")
	counts := flag.Bool("instructions", false, "count the instructions of the server for a call by valgrind, instead of measuring times")
	flag.Parse()
	if *counts {
		if err := printInstructions(context.Background(), *only); err != nil {
			fmt.Fprintln(os.Stderr, "bench-redis:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(context.Background(), *rounds, *turns, *each, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench-redis:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, turns int, each time.Duration, only string) error {
	dir, err := os.MkdirTemp("", "bench-redis")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := redistest.Start(dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: manyCallers, MinIdleConns: manyCallers})
	defer func() { _ = client.Close() }()
	version, err := info(ctx, client, "server", "redis_version:")
	if err != nil {
		return err
	}

	var all []*result
	for _, c := range contenders {
		if c.yardstick || strings.Contains(c.name, only) {
			all = append(all, &result{contender: c})
		}
	}
	b := bench{client: client, turns: turns, each: each}
	for range rounds {
		for i := range costs {
			if err := b.round(ctx, all, i); err != nil {
				return fmt.Errorf("cost %d: %w", costs[i], err)
			}
		}
	}
	for i := range costs {
		for _, r := range all {
			if r.memory[i], err = b.memory(ctx, r.contender, costs[i]); err != nil {
				return fmt.Errorf("memory of %s: %w", r.name, err)
			}
		}
	}
	fmt.Printf("Redis %s on loopback; median of %d interleaved rounds of %d turns of %s; every pool holds 10,000 units from the start.\n",
		version, rounds, turns, each)
	printRatios(os.Stdout, all)
	if len(all) == len(contenders) {
		printGoals(os.Stdout, all)
	}
	printFigures(os.Stdout, all)
	return nil
}
