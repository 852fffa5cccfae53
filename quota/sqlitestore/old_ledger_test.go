package sqlitestore_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// withoutKeys makes of a ledger one of schema 4, in which pools had no keys.
const withoutKeys = `
DROP TABLE notes;
DROP TABLE limit_changes;
DROP TABLE limits;
DROP VIEW spent;
CREATE VIEW spent AS SELECT * FROM reservations;
ALTER TABLE reservations DROP COLUMN key;
ALTER TABLE reservations DROP COLUMN shared;
CREATE TABLE old_families (upstream TEXT NOT NULL, account TEXT NOT NULL, members INTEGER NOT NULL,
	called INTEGER NOT NULL DEFAULT 0, leapt INTEGER NOT NULL DEFAULT 0, proven INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (upstream, account)) STRICT, WITHOUT ROWID;
INSERT INTO old_families SELECT upstream, account, members, called, leapt, proven FROM families;
DROP TABLE families;
ALTER TABLE old_families RENAME TO families;
CREATE TABLE old_members (id INTEGER PRIMARY KEY, upstream TEXT NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL,
	windows TEXT NOT NULL, used TEXT NOT NULL, written INTEGER NOT NULL, page BLOB NOT NULL, listed INTEGER NOT NULL DEFAULT 0,
	UNIQUE (upstream, account, key)) STRICT;
INSERT INTO old_members SELECT id, upstream, account, key, windows, used, written, page, listed FROM members;
DROP TABLE members;
ALTER TABLE old_members RENAME TO members;
CREATE INDEX members_by_age ON members (upstream, account, written) WHERE key <> '';
PRAGMA user_version = 4;
`

// A ledger from before pools had keys opens, and keeps its counts, receipts and members.
func TestALedgerWithoutKeysKeepsItsCounts(t *testing.T) {
	clock := quota.NewSimClock(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
	path := filepath.Join(t.TempDir(), "ledger.db")
	open := func() *sqlitestore.Store {
		s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Clock: clock, Families: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	spec, err := window.Spec{Per: time.Hour, Precision: time.Minute}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	s := open()
	reserve := func(id, upstream, name, key string, units int64) quota.Verdict {
		t.Helper()
		v, err := s.Reserve(t.Context(), quota.Request{ID: id, Charges: []quota.Charge{{
			Pool:  quota.Pool{Upstream: upstream, Account: quota.DefaultAccount, Name: name, Key: key},
			Units: units, Windows: []window.Limit{window.NewLimit(spec, 100)}, Revision: 1, MaxKeys: 2,
		}}})
		if err != nil || !v.Allowed {
			t.Fatalf("%s/%s:%s: %+v %v", upstream, name, key, v, err)
		}
		return v
	}
	was := reserve("a", "api", "tokens", "", 5)
	reserve("", "client", "", "x", 7)
	reserve("", "client", "", "y", 8)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec(withoutKeys)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	s = open()
	t.Cleanup(func() { s.Close() })
	if again := reserve("a", "api", "tokens", "", 5); !again.Repeat || again.Token() != was.Token() || again.Used != 5 {
		t.Errorf("the reservation again: %+v, want it repeated", again)
	}
	if v := reserve("", "client", "", "x", 1); v.Used != 8 {
		t.Errorf("the member has used %d, want 8", v.Used)
	}
	if v := reserve("", "client", "", "z", 1); !v.Overflow {
		t.Errorf("a third member: %+v, want the family full", v)
	}
	if v := reserve("b", "api", "tokens", "x", 3); v.Used != 3 || v.Overflow {
		t.Errorf("a key of a pool: %+v, want a page of its own", v)
	}
	if done, err := s.Settle(t.Context(), was.Token(), quota.Units{"tokens": 1}); err != nil || done.Back != 4 {
		t.Errorf("settled: %+v %v, want 4 back", done, err)
	}
	spent, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: "api", Account: quota.DefaultAccount})
	if err != nil || len(spent) != 1 || spent[0].Units != 4 {
		t.Errorf("spent %+v %v, want 4 of tokens", spent, err)
	}
}
