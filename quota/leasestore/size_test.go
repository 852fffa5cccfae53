package leasestore_test

import (
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/leasestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// TestBlocksAreForALife: at a steady rate, a block is for the calls of its whole life. Each
// block costs the ledger as much as a few calls, so there must not be more of them.
func TestBlocksAreForALife(t *testing.T) {
	r := newRig(t, limit(1_000_000, window.Spec{Per: time.Minute, Late: 2 * time.Second}))
	r.charge.Lease.Most = 50_000
	s := leasestore.New(r.ledger, &leasestore.Options{Clock: r.clock})
	const lives, perLife = 50, 25
	for range lives * perLife {
		r.grant(s)
		r.clock.Advance(r.life / perLife)
	}
	if asked := r.ledger.asked.Load(); asked > lives+5 { // the first ones are small
		t.Errorf("in %d lives of a block the ledger was asked %d times", lives, asked)
	}
	if err := s.Close(); err != nil || r.used() > lives*perLife {
		t.Errorf("after close (%v) %d units count", err, r.used())
	}
}
