package sqlitestore_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// Idle members are found, and limits are set, without passing over the keys that have limits of their own, of
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
	for _, row := range []struct {
		file, name, begins, says, never string
		args                            []any
	}{
		{"sql/families.sql", "member_oldest", "SELECT", "INDEX members_with_a_place ", "SCAN", []any{"client", "default", ""}},
		{"sql/limits.sql", "limit_set", "INSERT", "SEARCH limits USING COVERING INDEX", "SCAN limits", []any{"client", "a", 1, "", "", 1, 0, nil}},
	} {
		text, err := os.ReadFile(row.file)
		if err != nil {
			t.Fatal(err)
		}
		_, query, _ := strings.Cut(string(text), "-- "+row.name+" ")
		query = query[strings.Index(query, row.begins):]
		plan := planOf(t, db, query[:strings.Index(query, ";")], row.args...)
		if !strings.Contains(plan, row.says) || strings.Contains(plan, row.never) {
			t.Errorf("%s: %q", row.name, plan)
		}
	}
}

// planOf says how SQLite would run a statement.
func planOf(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		all = append(all, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "; ")
}
