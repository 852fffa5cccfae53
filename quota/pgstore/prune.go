package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
	"github.com/headroom-quota/headroom/quota/window"
)

const (
	// pruneEvery is the time between searches for charges that are too old.
	pruneEvery = time.Hour
	// prunedAtOnce bounds the charges that one transaction deletes.
	prunedAtOnce = 2000
)

// sweep deletes old charges beside the calls, whose locks it does not need.
type sweep struct {
	mu   sync.Mutex
	last window.Instant // by the ledger's clock
	busy bool
}

// due reports whether a search should begin now.
func (s *sweep) due(now window.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ago := now.Sub(s.last); s.busy || s.last != 0 && ago >= 0 && ago < pruneEvery {
		return false
	}
	s.last, s.busy = now, true
	return true
}

// pruneSoon deletes charges that are too old, in the background, once an hour.
func (b *server) pruneSoon(now time.Time) {
	if b.prune.due(window.At(now)) {
		b.pruning.Go(func() {
			for b.pruneSome(window.At(now)) == prunedAtOnce {
			}
			b.prune.mu.Lock()
			defer b.prune.mu.Unlock()
			b.prune.busy = false
		})
	}
}

// pruneSome returns how many charges it deleted. If it fails, the next hour tries again.
func (b *server) pruneSome(now window.Instant) (n int64) {
	ctx, cancel := context.WithTimeout(b.living, time.Minute)
	defer cancel()
	select {
	case b.slow <- struct{}{}:
		defer func() { <-b.slow }()
	case <-ctx.Done():
		return 0
	}
	oldest := now.Add(-storekit.KeptFor)
	if err := b.pool.QueryRow(ctx, b.sql["prune"], int64(oldest), int64(now.Add(-quota.ReceiptLife)), int64(prunedAtOnce)).Scan(&n); err != nil {
		return 0
	}
	return n
}
