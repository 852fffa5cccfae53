package sqlitefile_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// TestSnapshot copies a file that another writes to, and one that nobody has open: all
// that was committed is in the copy, and nothing is left beside the file.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "it's.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, text := range []string{"PRAGMA journal_mode=WAL", "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)", "BEGIN IMMEDIATE", "INSERT INTO t VALUES (2)"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(to string) (n int) {
		t.Helper()
		if err := sqlitefile.Snapshot(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		copied, err := sql.Open("sqlite", to)
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		if err := copied.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := rows(filepath.Join(t.TempDir(), "while.db")); n != 1 {
		t.Errorf("the copy has %d rows while another writes a second, want 1", n)
	}
	if _, err := db.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := rows(filepath.Join(t.TempDir(), "after.db")); n != 2 {
		t.Errorf("the copy has %d rows, want 2", n)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(before) != string(after) {
		t.Errorf("the file is another one (%v)", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("beside the file there is now %v", left)
	}
	if err := sqlitefile.Snapshot(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "copy.db")); err == nil {
		t.Error("a file that is not there was copied")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("a file that is not there was made: %v", left)
	}
}
