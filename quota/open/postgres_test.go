package open_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// A ledger in PostgreSQL has all that one in Redis has: warnings, a journal, a breaker and
// leases. Calls that are admitted while the server is down are charged when it is back.
func TestLedgerInPostgres(t *testing.T) {
	server := pgtest.Start(t, pgtest.Fast...)
	o := options(t, t.TempDir())
	with(t, server.URL("postgres"), o, func(opened *open.Opened) {
		if all := strings.Join(opened.Warnings, "\n"); !strings.Contains(all, "fsync off") {
			t.Errorf("warnings %q", all)
		}
		if opened.Remembered {
			t.Error("the journal knows a new ledger")
		}
		lock, err := opened.Lock(t.Context(), "default/charts")
		if err != nil {
			t.Fatal(err)
		}
		other := options(t, t.TempDir()) // another machine
		with(t, strings.Replace(server.URL("postgres"), "postgres://", "postgresql://", 1), other, func(far *open.Opened) {
			if _, err := far.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) {
				t.Errorf("a job that another machine holds: %v", err)
			}
		})
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		if err := reserve(t.Context(), opened); err != nil {
			t.Fatal(err)
		}
		server.Crash() // after a kill, a process of the server may answer once more
		r, err := opened.Ledger.Reserve(t.Context(), quota.Call{Method: "videos.list", Outage: quota.Admit})
		if err != nil || !r.Outage {
			t.Fatalf("a call to admit while the server is down: %v", err)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // its limits may not have been read yet
			if err = reserve(t.Context(), opened); errors.Is(err, breaker.ErrOpen) || time.Now().After(deadline) {
				break
			}
		}
		if !errors.Is(err, breaker.ErrOpen) {
			t.Errorf("a call when the server is known to be down: %v", err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if err = reserve(t.Context(), opened); err == nil || time.Now().After(deadline) {
				break
			}
		}
		if err != nil {
			t.Fatalf("a call when it is back: %v", err)
		}
		spent, err := opened.Ledger.View().Spend(t.Context(), quota.SpendQuery{Upstream: "youtube"})
		if err != nil || len(spent) != 1 || spent[0].Units != 3 {
			t.Errorf("spent %+v, %v; want the call that was admitted and those before and after it", spent, err)
		}
		if waiting, err := opened.Journal.Pending(t.Context()); err != nil || len(waiting) != 0 {
			t.Errorf("%d calls wait, %v", len(waiting), err)
		}
	})
	with(t, server.URL("postgres"), o, func(opened *open.Opened) {
		if !opened.Remembered {
			t.Error("the journal does not know the ledger")
		}
	})
	if err := server.Exec("DROP SCHEMA headroom_ledger CASCADE"); err != nil {
		t.Fatal(err)
	}
	with(t, server.URL("postgres"), o, func(opened *open.Opened) {
		if err := reserve(t.Context(), opened); !errors.Is(err, quota.ErrOutage) {
			t.Errorf("a ledger that lost all: %v", err)
		}
	})
	with(t, server.URL("postgres")+"&fresh", o, func(opened *open.Opened) {
		if err := reserve(t.Context(), opened); err != nil {
			t.Errorf("a ledger that is to be trusted: %v", err)
		}
	})
}

func TestPostgresWithoutRightsIsAnError(t *testing.T) {
	at := pgtest.Shared(t)
	server := strings.Replace(at, "postgres://headroom@", "postgres://stranger@", 1)
	with(t, at, options(t, t.TempDir()), func(opened *open.Opened) {}) // makes the tables
	if _, err := open.Open(t.Context(), server, options(t, t.TempDir())); err != nil {
		t.Fatalf("a user who is not there is an outage: %v", err)
	}
	pgtest.Role(t, "stranger")
	_, err := open.Open(t.Context(), server, options(t, t.TempDir()))
	lacks, ok := errors.AsType[*pgstore.RightsError](err)
	if !ok || !strings.Contains(lacks.Error(), "GRANT USAGE ON SCHEMA headroom_ledger TO stranger;") {
		t.Errorf("a user without rights: %v", err)
	}
}
