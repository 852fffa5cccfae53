package pagestore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// Callers who share a transaction write their pool's page once, also in a process that did
// not make the page. Another process sees all that they took.
func TestSharedPageIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func(o *sqlitestore.Options) *sqlitestore.Store {
		s, err := sqlitestore.Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	other := open(nil)
	if _, err := other.Reserve(t.Context(), request("before", 1)); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(`CREATE TABLE written (pool TEXT);
		CREATE TRIGGER writes AFTER UPDATE ON pools BEGIN INSERT INTO written VALUES (new.pool); END`); err != nil {
		t.Fatal(err)
	}
	clock := &heldClock{held: make(chan struct{})}
	s := open(&sqlitestore.Options{Clock: clock, Wait: time.Minute})
	var callers sync.WaitGroup
	call := func(id string) {
		callers.Go(func() {
			if v, err := s.Reserve(t.Context(), request(id, 1)); err != nil || !v.Allowed {
				t.Errorf("%s: %+v %v, want a grant", id, v, err)
			}
		})
	}
	call("first")
	clock.read()
	const shared = 5
	for i := range shared {
		call(fmt.Sprint(i))
	}
	for s.Waiting() < shared {
		runtime.Gosched()
	}
	close(clock.held)
	callers.Wait()
	var pages, units int
	err = db.QueryRow("SELECT (SELECT count(*) FROM written), (SELECT sum(units) FROM reservations)").Scan(&pages, &units)
	if err != nil || pages != 1 || units != shared+2 {
		t.Errorf("the page was written %d times in one transaction, and %d units are recorded, want 1 and %d: %v", pages, units, shared+2, err)
	}
	if v, err := other.Reserve(t.Context(), request("after", 1)); err != nil || v.Used != shared+3 {
		t.Errorf("the other process sees %d used, want %d: %v", v.Used, shared+3, err)
	}
}
