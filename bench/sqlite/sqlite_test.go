package main

import (
	"path/filepath"
	"testing"

	"github.com/headroom-quota/headroom/bench/duel"
)

// TestContenders keeps the benchmark running: each contender is granted, or
// refused, as it is meant to.
func TestContenders(t *testing.T) {
	if err := duel.Try(t.Context(), contenders, func() string { return filepath.Join(t.TempDir(), "ledger.db") }); err != nil {
		t.Error(err)
	}
}
