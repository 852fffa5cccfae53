package pgstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/storetest"
)

// TestSpendLeavesConnections: however many ask for the spend, and whatever deletes old charges
// meanwhile, a caller who looks at the pools, or reserves, finds a connection.
func TestSpendLeavesConnections(t *testing.T) {
	at := pgtest.Shared(t)
	few := at + "?pool_max_conns=2"
	if strings.Contains(at, "?") {
		few = at + "&pool_max_conns=2"
	}
	s := openAt(t, few, &pgstore.Options{Clock: storetest.NewClock(), Timeout: 30 * time.Second})
	if _, err := s.Reserve(t.Context(), request("id", "a", 1)); err != nil {
		t.Fatal(err)
	}
	lock, watch := session(t, at), session(t, at)
	for _, sql := range []string{"BEGIN", "LOCK TABLE headroom_ledger.reservations IN ACCESS EXCLUSIVE MODE"} {
		if _, err := lock.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	deleted := make(chan int64, 1)
	go func() { deleted <- pgstore.Prune(s) }()
	sessionsWait(t, watch, "relation", 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, err := s.Spend(ctx, quota.SpendQuery{Upstream: "api", Account: "a"})
			ended <- err
		}()
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
	if _, err := lock.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	<-deleted
}
