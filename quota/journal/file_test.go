package journal_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// spoil changes a database as a person with sqlite3 does.
func spoil(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(text)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	newer, other, ledger, text := filepath.Join(dir, "newer.db"), filepath.Join(dir, "other.db"), filepath.Join(dir, "ledger.db"), filepath.Join(dir, "notes.txt")
	j, err := journal.Open(t.Context(), newer, "redis://test")
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	spoil(t, newer, "PRAGMA user_version = 7")
	spoil(t, other, "CREATE TABLE entries (id)")
	s, err := sqlitestore.Open(t.Context(), ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := os.WriteFile(text, []byte("no database at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		newer:  "it was made by a newer headroom: schema 7, this one knows 3; upgrade",
		other:  "a database of another program, with 1 tables and indexes that are not ours; name another file",
		ledger: "a database of another program",
		text:   "it is no SQLite database and was left as it is",

		filepath.Join(dir, "no", "such", "journal.db"): "mkdir -p",
	} {
		before, _ := os.ReadFile(path)
		j, err := journal.Open(t.Context(), path, "redis://test")
		if err == nil {
			j.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not say %q of %s", err, want, path)
		}
		if after, _ := os.ReadFile(path); !slices.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestANewJournalIsMadeByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			j, err := journal.Open(context.Background(), path, "redis://test")
			if err != nil {
				t.Error(err)
				return
			}
			j.Close()
		})
	}
	all.Wait()
}

// A journal whose file was deleted or replaced returns an error that says so.
func TestJournalTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"deleted":         os.Remove,
		"the wal deleted": func(path string) error { return os.Remove(path + "-wal") },
		"replaced": func(path string) error {
			j, err := journal.Open(context.Background(), path+".new", "redis://test")
			if err != nil {
				return err
			}
			return errors.Join(j.Close(), os.Rename(path+".new", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			if a, err := j.Admit(t.Context(), entry("a", 20), 50); !a.OK || err != nil {
				t.Fatal(a, err)
			}
			if err := take(j.Path()); err != nil {
				t.Fatal(err)
			}
			_, admit := j.Admit(t.Context(), entry("b", 20), 50)
			_, settle := j.Settle(t.Context(), "a", []int64{0})
			for op, err := range map[string]error{"admit": admit, "settle": settle, "block": j.Block(t.Context(), entry("c", 1))} {
				if err == nil || !strings.Contains(err.Error(), "while this process was using it; put it back") {
					t.Errorf("%s: %v, want it to say that the file was taken away under this process", op, err)
				}
			}
		})
	}
}
