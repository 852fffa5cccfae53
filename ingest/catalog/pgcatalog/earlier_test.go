package pgcatalog

import (
	"bytes"
	"context"
	database "database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// These take a file, and a database, back to the version before, the latest first.
var (
	filesBefore = [][]string{
		{"ALTER TABLE run_work DROP COLUMN charges"},
		{"DROP TABLE slates"},
		{"DROP TABLE refusals"},
		{"DROP TABLE actions", "DROP TABLE pool_days", "ALTER TABLE run_work DROP COLUMN cause", "ALTER TABLE run_work DROP COLUMN pool", "ALTER TABLE run_work DROP COLUMN refused"},
		{"DROP TABLE ledger"},
		{"ALTER TABLE cursors DROP COLUMN blocked_on"},
	}
	databasesBefore = [][]string{
		{"ALTER TABLE headroom_catalog.run_work DROP COLUMN charges"},
		{"DROP TABLE headroom_catalog.slates"},
		{"DROP TABLE headroom_catalog.ledgers"},
		{"DROP TABLE headroom_catalog.refusals"},
		{"DROP TABLE headroom_catalog.actions", "DROP TABLE headroom_catalog.pool_days", "ALTER TABLE headroom_catalog.run_work DROP COLUMN cause, DROP COLUMN pool, DROP COLUMN refused"},
	}
)

// TestCopyFromEarlierVersions: a copy reads the source as an earlier version of the program has
// left it. It becomes what the source becomes when this version opens it.
func TestCopyFromEarlierVersions(t *testing.T) {
	clock := quota.NewSimClock(noon)
	file := filled(t, clock)
	path, url := file.Path(), pgtest.Shared(t)
	if _, err := Copy(ctx, file, url, func(catalog.Copied) {}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for i, steps := range filesBefore {
		version := len(filesBefore) - i
		onFile(t, path, append(steps, fmt.Sprintf("PRAGMA user_version = %d", version))...)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		to := pgtest.Shared(t)
		err = catalog.Inspect(ctx, path, func(c *catalog.Catalog) error {
			_, err := Copy(ctx, c, to, func(catalog.Copied) {})
			return err
		})
		if after, _ := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Fatalf("from a file of version %d: %v", version, err)
		}
		opened := filepath.Join(t.TempDir(), "opened.db")
		if err := os.WriteFile(opened, before, 0o600); err != nil {
			t.Fatal(err)
		}
		alike(t, fmt.Sprintf("a file of version %d", version), opened, to)
	}
	for i, steps := range databasesBefore {
		version := len(databasesBefore) - i
		for _, step := range append(steps, fmt.Sprintf("UPDATE headroom_catalog.schema_version SET version = %d", version)) {
			onDatabase(t, url, step)
		}
		back := filepath.Join(t.TempDir(), "back.db")
		err := Inspect(ctx, url, func(c *Catalog) error {
			_, err := catalog.Copy(ctx, c, back, func(catalog.Copied) {})
			return err
		})
		if err != nil {
			t.Fatalf("from a database of version %d: %v", version, err)
		}
		if version == 1 { // this opens it, which ends the earlier versions
			alike(t, "a database of version 1", back, url)
		}
	}
}

// onFile runs statements on a file, as a person with sqlite3 does.
func onFile(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := database.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// onDatabase runs a statement on a database.
func onDatabase(t *testing.T, url, statement string) {
	t.Helper()
	c, err := connect(ctx, url, &Options{Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.pool.Close()
	if _, err := c.pool.Exec(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// alike compares all that a file and a database hold.
func alike(t *testing.T, what, path, url string) {
	t.Helper()
	file, err := catalog.Open(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ours, err := Open(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if diff := cmp.Diff(replaced(dumped(t, file)), replaced(dumped(t, ours))); diff != "" {
		t.Errorf("%s (-file +ours):\n%s", what, diff)
	}
	same(t, what+": runs", func(c catalogtest.Catalog) (any, error) { return c.Runs(ctx, catalog.RunsQuery{}) }, file, ours)
	same(t, what+": cursors", func(c catalogtest.Catalog) (any, error) { return c.Cursors(ctx, "") }, file, ours)
}
