package main

import (
	"context"
	"testing"
	"time"
)

// TestContenders keeps the benchmark running: each is answered as it should be.
func TestContenders(t *testing.T) {
	if err := run(context.Background(), 1, time.Millisecond, 200, false); err != nil {
		t.Error(err)
	}
}
