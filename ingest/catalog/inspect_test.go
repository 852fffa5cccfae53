package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

func TestInspectNeedsACatalog(t *testing.T) {
	dir := t.TempDir()
	if err := inspect(filepath.Join(dir, "catalog.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing catalog: %v", err)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
		t.Errorf("it made %v (%v)", made, err)
	}
}

// inspect reads the cursors of a catalog.
func inspect(path string) error {
	return Inspect(ctx, path, func(c *Catalog) error {
		_, err := c.Cursors(ctx, "")
		return err
	})
}

// TestInspectTouchesNothing: it changes no file and creates none, not even for a moment.
// An empty file is no catalog, and stays empty.
func TestInspectTouchesNothing(t *testing.T) {
	c := fresh(t)
	path := c.Path()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // when the folder was last changed
	look := func() error {
		t.Helper()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Dir(path), at, at); err != nil {
			t.Fatal(err)
		}
		failed := inspect(path)
		after, err := os.ReadFile(path)
		if err != nil || string(before) != string(after) {
			t.Errorf("the file was changed (%v)", err)
		}
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.ModTime().Equal(at) {
			t.Errorf("something was made beside it (%v)", err)
		}
		return failed
	}
	if err := look(); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := look(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.WriteFile(path, []byte("these are the notes of somebody else, and no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := look(); err == nil {
		t.Error("a file that is no database was read")
	}
}

func TestInspectRefusesToWrite(t *testing.T) {
	c := fresh(t)
	err := Inspect(ctx, c.Path(), func(c *Catalog) error {
		_, err := c.Begin(ctx, Start{Job: "trending"})
		return err
	})
	if !errors.Is(err, sqlitefile.ErrClosed) {
		t.Errorf("a run began with %v, want %v", err, sqlitefile.ErrClosed)
	}
}

// TestReadersKeepReadinessWaitingForNothing: it has a session of its own.
func TestReadersKeepReadinessWaitingForNothing(t *testing.T) {
	c := fresh(t)
	for range sqlitefile.Readers {
		s, err := c.file.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.file.Release(s)
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
