package sqlitefile_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// TestSnapshot copies a file that another process writes to, and one that no process has
// open. The copy has everything that was committed, and nothing is left beside the file.
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

// TestSnapshotByAnotherName: committed data that is not in the file yet is in the -wal beside
// the real file.
func TestSnapshotByAnotherName(t *testing.T) {
	dir := t.TempDir()
	path, link, to := filepath.Join(dir, "real.db"), filepath.Join(t.TempDir(), "link.db"), filepath.Join(t.TempDir(), "copy.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{"PRAGMA journal_mode=WAL", "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1)"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := sqlitefile.Snapshot(t.Context(), link, to); err != nil {
		t.Fatal(err)
	}
	copied, err := sql.Open("sqlite", to)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	var n int
	if err := copied.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil || n != 1 {
		t.Errorf("the copy has %d rows (%v), want 1", n, err)
	}
}

// TestUntouchedBeginsAnew: after another process wrote meanwhile, the data read may be a mix
// of two moments.
func TestUntouchedBeginsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	write := func(text string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("PRAGMA journal_mode=WAL; CREATE TABLE t (n INTEGER)")
	tries, rows := 0, int64(0)
	err := sqlitefile.Untouched(t.Context(), path, func(s *sqlitefile.Session) (err error) {
		if tries++; tries == 1 {
			write("INSERT INTO t SELECT value FROM (WITH RECURSIVE c(value) AS (SELECT 1 UNION ALL SELECT value+1 FROM c LIMIT 9999) SELECT value FROM c)")
			return nil
		}
		rows, err = s.Number("SELECT count(*) FROM t")
		return err
	})
	if err != nil || tries != 2 || rows != 9999 {
		t.Errorf("%d tries, %d rows: %v", tries, rows, err)
	}
}

// TestUntouchedKeepsTheLog: a -wal without a commit stays, because another process may be about to write to it.
func TestUntouchedKeepsTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec("PRAGMA journal_mode=WAL; CREATE TABLE t (n INTEGER)")
	}
	if err := errors.Join(err, db.Close(), os.WriteFile(path+"-wal", make([]byte, 32), 0o600)); err != nil {
		t.Fatal(err)
	}
	err = sqlitefile.Untouched(t.Context(), path, func(s *sqlitefile.Session) error {
		_, err := s.Number("SELECT count(*) FROM t")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 2 {
		t.Errorf("there are now %v", left)
	}
}
