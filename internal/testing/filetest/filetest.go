// Package filetest has the tests that each kind of SQLite file passes, and helps to write others.
package filetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Files is how a package keeps its files.
type Files struct {
	Kind *sqlitefile.Kind
	Open func(path string) (io.Closer, error)
}

// Says checks that an error contains some words.
func Says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error says %q, want it to say %q", err, w)
		}
	}
}

// Spoil changes a file through another connection, as a person with sqlite3 does.
func (f Files) Spoil(t testing.TB, path string, texts ...string) {
	t.Helper()
	s, err := f.Kind.Connect(context.Background(), path, sqlitefile.Write)
	for _, text := range texts {
		if err == nil {
			err = s.Script(text)
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (f Files) path(t testing.TB) string { return filepath.Join(t.TempDir(), f.Kind.Name+".db") }

// must opens a file, and closes it at the end of the test.
func (f Files) must(t testing.TB, path string) io.Closer {
	t.Helper()
	c, err := f.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Refuses checks that a path without a usable file is refused, and that nothing is changed
// there. The error for memory says this word.
func (f Files) Refuses(t *testing.T, memory string) {
	dir := t.TempDir()
	newer, other, strange := filepath.Join(dir, "newer.db"), filepath.Join(dir, "other.db"), filepath.Join(dir, "strange.db")
	if err := os.WriteFile(strange, []byte(strings.Repeat("no database at all\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = f.must(t, newer).Close()
	f.Spoil(t, newer, "PRAGMA user_version = 77")
	f.Spoil(t, other, "CREATE TABLE videos (id)", "PRAGMA journal_mode = DELETE") // as most databases have it
	name, missing := f.Kind.Name+".db", filepath.Join(dir, "no", "such")
	for _, tt := range []struct {
		name, path string
		words      []string
	}{
		{"a_missing_directory", filepath.Join(missing, name), []string{"there is no directory", "mkdir -p '" + missing + "'"}},
		{"a_directory", dir, []string{"is a directory", filepath.Join(dir, name)}},
		{"a_file_for_a_directory", filepath.Join(strange, name), []string{"open " + strange, "directory"}},
		{"no_database", strange, []string{"open " + strange, "is no SQLite database", "was left as it is"}},
		{"a_newer_schema", newer, []string{newer, fmt.Sprintf("it was made by a newer headroom: schema 77, this one knows %d; upgrade", len(f.Kind.Steps))}},
		{"the_database_of_another_program", other, []string{"another program"}},
		{"no_name", "", []string{"name a file"}},
		{"memory", ":memory:", []string{memory}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := os.ReadFile(tt.path)
			c, err := f.Open(tt.path)
			if err == nil {
				_ = c.Close()
			}
			Says(t, err, tt.words...)
			if after, _ := os.ReadFile(tt.path); !slices.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
}

// TakenAway checks that whoever has a file open notices that it was replaced or deleted. Begin
// uses the file at path, and returns what uses it afterwards and returns the errors.
func (f Files) TakenAway(t *testing.T, begin func(t *testing.T, path string) (use func() map[string]error)) {
	for _, tt := range []struct {
		name string
		take func(path string) error
		word string
	}{
		{"deleted", os.Remove, "was deleted"},
		{"the_wal_deleted", func(path string) error { return os.Remove(path + "-wal") }, "-wal was"},
		{"the_shm_deleted", func(path string) error { return os.Remove(path + "-shm") }, "was deleted"},
		{"replaced", func(path string) error {
			other, err := f.Open(path + ".new")
			if err != nil {
				return err
			}
			return errors.Join(other.Close(), os.Rename(path+".new", path))
		}, "was replaced"},
		{"moved_away_and_begun_anew", func(path string) error {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
					return err
				}
			}
			f.must(t, path)
			return nil
		}, "was replaced"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := f.path(t)
			use := begin(t, path)
			if err := tt.take(path); err != nil {
				t.Fatal(err)
			}
			for op, err := range use() {
				if Says(t, err, path, tt.word); t.Failed() {
					t.Fatal(op)
				}
			}
		})
	}
}
