package web

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/guard"
)

// TestClientsTakeTurnsToSearch: who sends many waits for others no less than they for it.
func TestClientsTakeTurnsToSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		heavy, light := guard.ClientOf(netip.MustParseAddr("203.0.113.1")), guard.ClientOf(netip.MustParseAddr("203.0.113.2"))
		for range maxSearches {
			if mine, err := q.take(t.Context(), heavy); !mine || err != nil {
				t.Fatal(mine, err)
			}
		}
		var mu sync.Mutex
		var order []netip.Prefix
		refused := 0
		search := func(client netip.Prefix) {
			go func() {
				mine, _ := q.take(context.Background(), client)
				mu.Lock()
				defer mu.Unlock()
				if !mine {
					refused++
					return
				}
				order = append(order, client)
			}()
			synctest.Wait()
		}
		for range maxWaiting + 10 {
			search(heavy)
		}
		if refused != 10 {
			t.Errorf("%d are refused where %d may wait", refused, maxWaiting)
		}
		search(light)
		if refused != 11 {
			t.Errorf("the one with the most in the queue does not give way: %d are refused", refused)
		}
		for range maxWaiting {
			q.done()
			synctest.Wait()
		}
		if len(order) != maxWaiting || order[0] != heavy || order[1] != light {
			t.Errorf("the light one is not the second of %d", len(order))
		}
		for range maxSearches {
			q.done()
		}
		if q.running != 0 || q.waiting != 0 || len(q.turns) != 0 || len(q.clients) != 0 {
			t.Errorf("left over: %+v", &q)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		for range maxSearches {
			if mine, err := q.take(t.Context(), light); !mine || err != nil {
				t.Fatal(mine, err)
			}
		}
		if mine, err := q.take(gone, light); mine || err == nil {
			t.Error("who hung up has a turn")
		}
		q.done()
		if q.running != maxSearches-1 || q.waiting != 0 {
			t.Errorf("who hung up still waits: %+v", &q)
		}
	})
}
