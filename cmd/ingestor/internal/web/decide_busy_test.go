package web_test

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// TestALockedLedgerIsAnOutage: a file of SQLite that somebody has locked is found out
// while the request still has time to be admitted, or refused as an outage.
func TestALockedLedgerIsAnOutage(t *testing.T) {
	r := newDecider(t, &web.Options{Timeouts: web.Timeouts{Query: 20 * time.Second}})
	path := filepath.Join(t.TempDir(), "ledger.db")
	store, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Clock: r.Clock, Wait: 200 * time.Millisecond})
	r.Must(err)
	t.Cleanup(func() { r.Must(store.Close()) })
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), "sqlite:ledger.db")
	r.Must(err)
	t.Cleanup(func() { r.Must(j.Close()) })
	r.on(store, &quota.Options{Clock: r.Clock, Journal: j})
	other, err := sql.Open("sqlite", sqlitefile.URI(path, nil)) // another process, for all that SQLite knows
	r.Must(err)
	t.Cleanup(func() { r.Must(other.Close()) })
	db, err := other.Conn(t.Context())
	r.Must(err)
	t.Cleanup(func() { r.Must(db.Close()) })
	ready := func(want int) {
		t.Helper()
		if a := r.ask("GET", "/readyz", ""); a.StatusCode != want {
			t.Errorf("/readyz: %s, %s", a.Status, a.body)
		}
	}
	ready(http.StatusOK)
	before := version(t, db)
	ready(http.StatusOK)
	if after := version(t, db); after != before {
		t.Error("a second probe within ten seconds writes to the ledger, too")
	}
	_, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	r.Must(err)
	r.Clock.Set(r.Clock.Now().Add(11 * time.Second))

	ready(http.StatusServiceUnavailable)
	r.refuse(http.StatusServiceUnavailable, "outage", "/v1/reserve", `{"method": "item.get"}`)
	if v := r.grant(`{"method": "item.get", "outage": "admit"}`); !v.Outage {
		t.Errorf("granted by a ledger that is locked: %s", encoded(t, v))
	}
	_, err = db.ExecContext(t.Context(), "ROLLBACK")
	r.Must(err)
	for a := r.ask("GET", "/readyz", ""); a.StatusCode != http.StatusOK && t.Context().Err() == nil; a = r.ask("GET", "/readyz", "") {
		r.Clock.Set(r.Clock.Now().Add(2 * time.Second)) // a probe that has begun before may still be under way
	}
	ready(http.StatusOK)
	if v := r.grant(`{"method": "item.get"}`); v.Outage {
		t.Errorf("admitted unseen by a ledger that is there: %s", encoded(t, v))
	}
}

// version changes when another connection writes to a file.
func version(t *testing.T, db *sql.Conn) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
