package main

import (
	"testing"

	"github.com/headroom-quota/headroom/bench/duel"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// TestContenders keeps the benchmark running: each contender is granted, or refused, as it
// is meant to.
func TestContenders(t *testing.T) {
	if err := duel.Try(t.Context(), contenders, func() string { return pgtest.Shared(t) }); err != nil {
		t.Error(err)
	}
}
