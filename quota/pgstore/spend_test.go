package pgstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/pgtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
)

// TestSpendLeavesConnections: however many ask for the spend, who looks at the pools, or
// reserves, finds a connection.
func TestSpendLeavesConnections(t *testing.T) {
	at := pgtest.Shared(t)
	few := at + "?pool_max_conns=2"
	if strings.Contains(at, "?") {
		few = at + "&pool_max_conns=2"
	}
	s := openAt(t, few, &pgstore.Options{Timeout: 30 * time.Second})
	if _, err := s.Reserve(t.Context(), request("id", "a", 1)); err != nil {
		t.Fatal(err)
	}
	lock, watch := session(t, at), session(t, at)
	for _, sql := range []string{"BEGIN", "LOCK TABLE headroom_ledger.reservations IN ACCESS EXCLUSIVE MODE"} {
		if _, err := lock.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, err := s.Spend(ctx, quota.SpendQuery{Upstream: "api", Account: "a"})
			ended <- err
		}()
	}
	for ask[int](t, watch, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 10 {
		if states, err := s.Look(t.Context(), request("id", "a", 1).Charges); err != nil || !states[0].Known {
			t.Errorf("look: %v, %v", states, err)
			break
		}
	}
	cancel()
	for range cap(ended) {
		if err := <-ended; err == nil {
			t.Error("one did not wait")
		}
	}
}
