package quota_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/memstore"
)

// unmarked is a store as an older version used it, which wrote down only why.
type unmarked struct{ quota.Store }

func (s unmarked) Block(ctx context.Context, b quota.BlockRequest) error {
	b.Reason = "the console says so"
	return s.Store.Block(ctx, b)
}

// Every report of a block says who shut the pool, apart from the reason. A block that an
// older version wrote does not say who.
func TestABlockSaysWhoShutThePool(t *testing.T) {
	pool := quota.Pool{Upstream: "youtube", Account: "default", Name: "units"}
	for _, test := range []struct {
		name  string
		block func(*quota.Ledger, quota.Store) error
		by    quota.Blocker
		why   string
		says  string
	}{
		{
			"the upstream", func(l *quota.Ledger, _ quota.Store) error {
				return l.BlockFor(t.Context(), pool, time.Hour, "quotaExceeded")
			},
			quota.BlockedByUpstream, "quotaExceeded", "blocked by the upstream (quotaExceeded) until",
		},
		{
			"an upstream that says what a person would", func(l *quota.Ledger, _ quota.Store) error {
				return l.BlockFor(t.Context(), pool, time.Hour, "by hand: for maintenance")
			},
			quota.BlockedByUpstream, "by hand: for maintenance", "blocked by the upstream (by hand: for maintenance) until",
		},
		{
			"a person", func(l *quota.Ledger, _ quota.Store) error {
				return l.BlockFor(t.Context(), pool, time.Hour, quota.ByHand("by the upstream: no"))
			},
			quota.BlockedByPerson, "by the upstream: no", "blocked by hand (by the upstream: no) until",
		},
		{
			"a person, until the reset", func(l *quota.Ledger, _ quota.Store) error {
				return l.BlockUntilReset(t.Context(), pool, quota.ByHand("tried"))
			},
			quota.BlockedByPerson, "tried", "blocked by hand (tried) until",
		},
		{
			"an older version", func(l *quota.Ledger, s quota.Store) error {
				older, err := quota.New(l.Book(), unmarked{s}, nil)
				if err != nil {
					return err
				}
				return older.BlockFor(t.Context(), pool, time.Hour, "")
			},
			"", "the console says so", "blocked (the console says so) until",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			store := memstore.New(&memstore.Options{Clock: clock})
			var log strings.Builder
			l, err := quota.New(mustParse(t, testBook), store, &quota.Options{Clock: clock, Observer: quota.LogObserver(slog.New(slog.NewTextHandler(&log, nil)))})
			if err != nil {
				t.Fatal(err)
			}
			if err := test.block(l, store); err != nil {
				t.Fatal(err)
			}
			_, err = l.Reserve(t.Context(), units(1))
			var refused *quota.RefusedError
			if !errors.As(err, &refused) || refused.BlockedBy != test.by || refused.Reason != test.why || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v: by %q, %q", err, refused.BlockedBy, refused.Reason)
			}
			all, err := l.View().Usage(t.Context(), "youtube", "default")
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range all {
				if u.Pool == pool && (u.BlockedBy != test.by || u.Reason != test.why) {
					t.Errorf("usage: by %q, %q", u.BlockedBy, u.Reason)
				}
			}
			said := log.String()
			if test.by != "" && !strings.Contains(said, "blocked_by="+string(test.by)) {
				t.Errorf("the log does not say who:\n%s", said)
			}
			if test.by != quota.BlockedByUpstream && strings.Contains(strings.ReplaceAll(said, "by the upstream: no", ""), "upstream") {
				t.Errorf("the log says that it was the upstream:\n%s", said)
			}
		})
	}
}
