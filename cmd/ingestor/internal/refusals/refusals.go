// Package refusals counts the calls of callers over HTTP that the ledger refused, until a
// catalog keeps them for the history.
package refusals

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// Tally counts refused calls. A nil Tally counts nothing.
type Tally struct {
	clock quota.Clock

	mu    sync.Mutex
	calls map[kind]int64
}

// kind is what calls are counted by. There are few: callers are the names of tokens.
type kind struct {
	pool, cause, caller string
	hour                time.Time
}

// Unnamed is the caller whose token has no name.
const Unnamed = "a token without a name"

// New returns a tally. A nil clock is the machine's.
func New(clock quota.Clock) *Tally {
	return &Tally{clock: cmp.Or[quota.Clock](clock, quota.SystemClock{}), calls: map[kind]int64{}}
}

// Add counts a call if err says that a pool lacked the units, or is blocked. The limits of
// clients are no pools.
func (t *Tally) Add(caller string, err error) {
	var refused *quota.RefusedError
	if t == nil || !errors.As(err, &refused) || refused.Pool.Name == "" {
		return
	}
	pool := refused.Pool
	pool.Key = ""
	k := kind{pool: pool.String(), cause: "refused", caller: cmp.Or(caller, Unnamed), hour: t.clock.Now().UTC().Truncate(time.Hour)}
	if refused.Blocked {
		k.cause = "blocked"
	}
	t.mu.Lock()
	t.calls[k]++
	t.mu.Unlock()
}

// Save saves refusals, as [catalog.Catalog.AddRefusals] does.
type Save func(context.Context, []catalog.Refusal) error

// Flush saves what was counted since the last time. After an error it is counted again.
func (t *Tally) Flush(ctx context.Context, save Save) error {
	t.mu.Lock()
	counted := t.calls
	t.calls = map[kind]int64{}
	t.mu.Unlock()
	if len(counted) == 0 {
		return nil
	}
	all := make([]catalog.Refusal, 0, len(counted))
	for k, n := range counted {
		all = append(all, catalog.Refusal{Pool: k.pool, Cause: k.cause, Hour: k.hour, Caller: k.caller, Calls: n})
	}
	slices.SortFunc(all, func(a, b catalog.Refusal) int { // several servers lock rows in the same order
		return cmp.Or(strings.Compare(a.Pool, b.Pool), a.Hour.Compare(b.Hour), strings.Compare(a.Cause, b.Cause), strings.Compare(a.Caller, b.Caller))
	})
	err := save(ctx, all)
	if err != nil {
		t.mu.Lock()
		for k, n := range counted {
			t.calls[k] += n
		}
		t.mu.Unlock()
	}
	return err
}

// Flushing is often enough for a page, and seldom enough for a catalog.
const (
	flushEvery  = 10 * time.Second
	flushWithin = 5 * time.Second
)

// Keep flushes from time to time until ctx ends, and then once more. A process that is
// killed loses the refusals of the last seconds, which are for people to look at.
func (t *Tally) Keep(ctx context.Context, save Save, log *slog.Logger) {
	failed := false
	for ended := false; !ended; {
		ended = (quota.SystemClock{}).Sleep(ctx, flushEvery) != nil
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		err := t.Flush(within, save)
		cancel()
		if err != nil && !failed {
			log.Warn("the refusals of callers could not be kept for the history; the server tries again", "error", err)
		}
		failed = err != nil
	}
}
