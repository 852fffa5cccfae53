package main

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headroom-quota/headroom/internal/testing/redistest"
)

// TestContenders keeps the benchmark running: each contender is granted, or
// refused, as it is meant to, and the log keeps a member per unit.
func TestContenders(t *testing.T) {
	ctx := context.Background()
	server, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	for _, c := range contenders {
		for _, cost := range costs {
			if err := client.FlushAll(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			do, err := c.open(ctx, client, "", cost)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if err := times(ctx, 3, do); err != nil {
				t.Errorf("%s, cost %d: %v", c.name, cost, err)
			}
			if c.name != entries {
				continue
			}
			if got, err := client.ZCard(ctx, "units").Result(); err != nil || got != held+3*cost {
				t.Errorf("%s, cost %d, holds %d units after three calls, want %d (%v)", c.name, cost, got, held+3*cost, err)
			}
		}
	}
}
