package sqlitestore_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// Idle members are found without passing over the keys that have limits of their own, of
// which there may be a million.
func TestKeysWithLimitsAreNotSearched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Families: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	text, err := os.ReadFile("sql/families.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(string(text), "-- member_oldest ")
	query = query[strings.Index(query, "SELECT"):]
	var id, parent, unused int
	var plan string
	row := db.QueryRow("EXPLAIN QUERY PLAN "+query[:strings.Index(query, ";")], "client", "default", "")
	if err := row.Scan(&id, &parent, &unused, &plan); err != nil || !strings.Contains(plan, "INDEX members_with_a_place ") {
		t.Errorf("the oldest member is found by %q, %v", plan, err)
	}
}
