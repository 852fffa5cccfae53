package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headroom-quota/headroom/internal/testing/childtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/pgstore"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
	"github.com/headroom-quota/headroom/quota/storetest"
)

func TestMain(m *testing.M) { childtest.Main(m, children) }

// The store has a journal, which must report no false loss.
func TestStore(t *testing.T) {
	h := newHarness(t, true)
	if !soak() {
		h.Operations = 1000
	}
	storetest.Run(t, h.Harness)
}

// The same without a journal, and without prepared statements, as behind PgBouncer.
func TestStoreBehindPgBouncer(t *testing.T) {
	if !soak() {
		t.Skip("it takes as long as TestStore; make soak runs it, and TestWaysToAsk asks a little")
	}
	h := newHarness(t, false, "default_query_exec_mode=exec")
	storetest.Run(t, h.Harness)
}

func soak() bool { return os.Getenv("HEADROOM_SOAK") == "1" }

// harness describes stores in schemas of one database. A schema is emptied and used again,
// because making one takes longer than most tests. The stores share connections: the suite opens
// thousands, and to start a server's process for each took most of its time.
type harness struct {
	storetest.Harness
	url       string
	db        *pgxpool.Pool
	clock     storetest.Clock
	journaled bool

	mu    sync.Mutex
	made  int
	free  []string
	homes map[quota.Store]home
}

// home is where a store is.
type home struct{ schema, journal string }

func newHarness(t *testing.T, journaled bool, settings ...string) *harness {
	h := &harness{url: strings.Join(append([]string{pgtest.Shared(t), "pool_max_conns=32"}, settings...), "&"), clock: storetest.NewClock(), journaled: journaled, homes: make(map[quota.Store]home)}
	var err error
	if h.db, err = pgxpool.New(t.Context(), h.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.db.Close)
	h.Harness = storetest.Harness{
		Open:     h.fresh,
		SetClock: h.clock.Move,
		Share:    func(t testing.TB, s quota.Store) quota.Store { return h.open(t, h.home(s)) },
		Reopen: func(t testing.TB, s quota.Store) quota.Store {
			if err := s.(*pgstore.Store).Close(); err != nil {
				t.Fatal(err)
			}
			return h.open(t, h.home(s))
		},
		Size: func(t testing.TB, s quota.Store) (n int64) {
			return h.number(t, "SELECT coalesce(sum(length(page)), 0) FROM "+h.home(s).schema+".pools")
		},
		Families: true,
		Members: func(t testing.TB, s quota.Store) int {
			return int(h.number(t, "SELECT count(*) FROM "+h.home(s).schema+".members WHERE pool = ''"))
		},
	}
	return h
}

func (h *harness) number(t testing.TB, sql string) (n int64) {
	t.Helper()
	if err := h.db.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (h *harness) home(s quota.Store) home {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.homes[s]
}

// empty empties a schema.
const empty = `
DELETE FROM ledger.births; DELETE FROM ledger.pools; DELETE FROM ledger.reservations;
DELETE FROM ledger.families; DELETE FROM ledger.members; DELETE FROM ledger.leases;
DELETE FROM ledger.limits; DELETE FROM ledger.limit_changes; DELETE FROM ledger.notes`

// fresh opens a store in an empty schema.
func (h *harness) fresh(t testing.TB) quota.Store {
	at := home{}
	if h.journaled {
		at.journal = filepath.Join(t.TempDir(), "journal.db")
	}
	h.mu.Lock()
	if n := len(h.free); n > 0 {
		at.schema, h.free = h.free[n-1], h.free[:n-1]
	} else {
		h.made++
		at.schema = fmt.Sprintf("ledger%d", h.made)
	}
	h.mu.Unlock()
	t.Cleanup(func() { // after the stores were closed
		if _, err := h.db.Exec(context.Background(), strings.ReplaceAll(empty, "ledger", at.schema), pgx.QueryExecModeSimpleProtocol); err != nil {
			return // the test opened nothing there, or broke it
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.free = append(h.free, at.schema)
	})
	return h.open(t, at)
}

func (h *harness) open(t testing.TB, at home) quota.Store {
	t.Helper()
	o := &pgstore.Options{Schema: at.schema, Clock: h.clock, Timeout: testTimeout}
	if at.journal != "" {
		j, err := journal.Open(context.Background(), at.journal, h.url+"#"+at.schema)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		o.Births = j
	}
	s := pgstore.Over(h.db, h.url, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.homes[s] = at
	return s
}

// testTimeout is long, because a busy machine delays servers too.
const testTimeout = 20 * time.Second
