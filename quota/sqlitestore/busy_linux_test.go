package sqlitestore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/journal"
)

// A file that another process has locked is an outage of the ledger for a caller that waits as long as
// the store does. A caller whose own deadline comes first gets that: its patience says nothing about the file.
func TestLockedFileIsAnOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, &Options{Wait: 300 * time.Millisecond})
	costs, err := book.Parse("costs.yaml", []byte(`
revision: 1
upstreams:
  api:
    pools: {units: {quota: 100, headroom: 0, windows: [{per: 24h}]}}
    methods: {item.get: {pool: units, cost: 1}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "sqlite:ledger.db")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	l, err := quota.New(costs, s, &quota.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	pool := quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: "units"}
	call := quota.Call{Upstream: "api", Method: "item.get"}
	admitted := call
	admitted.Outage = quota.Admit
	holder := childtest.Start(t, "hold", path)
	for _, within := range []time.Duration{5 * time.Millisecond, time.Minute} {
		ask := func(ask func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return ask(ctx)
		}
		t.Run(within.String(), func(t *testing.T) {
			for name, op := range map[string]func(context.Context) error{
				"reserve": func(ctx context.Context) error { _, err := l.Reserve(ctx, call); return err },
				"adjust":  func(ctx context.Context) error { _, err := l.Admin().Adjust(ctx, pool, 1, "tried"); return err },
				"unblock": func(ctx context.Context) error { return l.Admin().Unblock(ctx, pool) },
			} {
				if err := ask(op); errors.Is(err, quota.ErrOutage) != (within == time.Minute) || errors.Is(err, context.DeadlineExceeded) != (within < time.Minute) {
					t.Errorf("%s: %v", name, err)
				}
			}
			var r *quota.Reservation
			err := ask(func(ctx context.Context) (err error) { r, err = l.Reserve(ctx, admitted); return err })
			switch {
			case within < time.Minute && (errors.Is(err, quota.ErrOutage) || !errors.Is(err, context.DeadlineExceeded)):
				t.Errorf("a call to admit in an outage, of a caller that ran out of time: %v", err)
			case within == time.Minute && (err != nil || !r.Outage):
				t.Errorf("a call to admit in an outage: %v", err)
			}
		})
	}
	t.Run("but not for a caller that gives up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := l.Reserve(ctx, admitted); !errors.Is(err, context.Canceled) || errors.Is(err, quota.ErrOutage) {
			t.Errorf("%v, want its own error", err)
		}
	})
	t.Run("nor for one that comes too late", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if _, err := l.Reserve(ctx, admitted); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, quota.ErrOutage) {
			t.Errorf("%v, want its own error", err)
		}
	})
	holder.Begin()
	holder.Rest()
	if err := l.Replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := l.View().Usage(t.Context(), "", "")
	if err != nil || all[0].Allowances[0].Used != 1 {
		t.Errorf("%+v, %v: want the one that was admitted", all, err)
	}
}
