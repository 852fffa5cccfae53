package main

import (
	"context"
	"testing"

	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestContenders keeps the benchmark running: each contender is granted, or refused, as it
// is meant to.
func TestContenders(t *testing.T) {
	ctx := context.Background()
	for _, c := range contenders {
		do, end, err := c.open(ctx, pgtest.Shared(t), 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for range 3 {
			if err := do(ctx); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		end()
	}
}
