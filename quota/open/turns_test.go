package open_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// turnLease is the lease of the pool, as the price book has it; or "".
const turnLease = "HEADROOM_TEST_LEASE"

// turnLedger opens a ledger of which a light call takes 1%, and a heavy one 80%.
func turnLedger(ctx context.Context, address, state, lease string) (*open.Opened, error) {
	b, err := book.Parse("costs.yaml", fmt.Appendf(nil, `
revision: 1
upstreams:
  api:
    pools: {units: {quota: 100, windows: [{per: 10m}]%s}}
    methods: {light: {pool: units, cost: 1}, heavy: {pool: units, cost: 80}}
`, lease), nil)
	if err != nil {
		return nil, err
	}
	return open.Open(ctx, address, &open.Options{Book: b, State: state, Logger: slog.New(slog.DiscardHandler)})
}

// waitsHeavily waits for a heavy call, as a process does that is then killed or frozen.
func waitsHeavily(address string, begin func() bool, _ io.Writer) error {
	o, err := turnLedger(context.Background(), address, os.Getenv(slotState), os.Getenv(turnLease))
	if err != nil {
		return err
	}
	begin()
	_, err = o.Ledger.Wait(context.Background(), quota.Call{Job: "heavy", Method: "heavy"}, 48*time.Hour)
	return errors.Join(err, o.Close())
}

// While a process waits for a heavy call, one that is ahead is held back. If the first is killed or frozen, the
// other one goes on.
func TestTheDeadHoldNobodyUp(t *testing.T) {
	sqlite := func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") }
	redis := func(t *testing.T) string {
		server, err := redistest.Start(t.TempDir(), "--save", "", "--appendonly", "no")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Kill)
		return "redis://" + server.Addr
	}
	for store, at := range map[string]func(*testing.T) string{
		"sqlite": sqlite, "redis": redis, "postgres": func(t *testing.T) string { return pgtest.Shared(t) },
		"sqlite leased": sqlite, "redis leased": redis,
	} {
		lease := ""
		if strings.HasSuffix(store, " leased") {
			lease = ", lease: {}"
		}
		for how, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
			t.Run(store+" "+how, func(t *testing.T) {
				t.Parallel()
				address, state := at(t), t.TempDir()
				o, err := turnLedger(t.Context(), address, state, lease)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = o.Close() }()
				light := quota.Call{Job: "light", Method: "light"}
				for range 21 {
					if _, err := o.Ledger.Reserve(t.Context(), light); err != nil {
						t.Fatal(err)
					}
				}
				child := childtest.Start(t, "wait heavily", address, slotState+"="+state, turnLease+"="+lease)
				child.Begin()
				waiting := func() []quota.Waiting {
					all, err := o.Ledger.View().Usage(t.Context(), "", "")
					if err != nil {
						t.Fatal(err)
					}
					return all[0].Waiting
				}
				for len(waiting()) == 0 {
					time.Sleep(5 * time.Millisecond)
				}
				var refused *quota.RefusedError
				for taken := 0; refused == nil; taken++ {
					// A refusal makes this process look who waits.
					if _, err := o.Ledger.Reserve(t.Context(), quota.Call{Job: "more", Method: "heavy"}); !errors.Is(err, quota.ErrRefused) {
						t.Fatal("more than the limit:", err)
					}
					time.Sleep(200 * time.Millisecond)
					if _, err := o.Ledger.Reserve(t.Context(), light); err != nil && !errors.As(err, &refused) {
						t.Fatal(err)
					}
					if taken > 70 {
						t.Fatal("a process that is ahead is never held back")
					}
				}
				if !strings.Contains(refused.Reason, "1 call of others comes first") {
					t.Fatalf("held back so: %+v", refused.Verdict)
				}
				if err := child.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				r, err := o.Ledger.Wait(t.Context(), light, 4*time.Minute)
				if err != nil {
					t.Fatal("after the other one is "+how+":", err)
				}
				if r.Used > r.Limit {
					t.Errorf("%d of %d units are used", r.Used, r.Limit)
				}
				// The ledger's clock may be ahead of the store's by as long as the store took to answer.
				for slices.ContainsFunc(waiting(), func(w quota.Waiting) bool { return w.Flow == "heavy" }) {
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
}
