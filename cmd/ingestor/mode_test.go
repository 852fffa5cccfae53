package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// TestOnlyTheirOwnerReadsWhatHoldsSpend: ledger, journal and catalog, and what SQLite
// keeps beside them, wherever they are and whatever the umask says.
func TestOnlyTheirOwnerReadsWhatHoldsSpend(t *testing.T) {
	before := syscall.Umask(0o022)
	t.Cleanup(func() { syscall.Umask(before) })
	dir := t.TempDir()
	l, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	j, err := journal.Open(t.Context(), filepath.Join(dir, "journal.db"), "sqlite:ledger.db")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	c, err := catalog.Open(t.Context(), filepath.Join(dir, "catalog.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	wals := 0
	for _, one := range all {
		info, err := one.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", one.Name(), mode)
		}
		if strings.HasSuffix(one.Name(), "-wal") {
			wals++
		}
	}
	if len(all) < 5 || wals < 2 {
		t.Errorf("there are %v, want three files and what SQLite keeps beside them", all)
	}
}

// TestCheckWarnsOfFilesThatOthersCanRead, and leaves them as they are.
func TestCheckWarnsOfFilesThatOthersCanRead(t *testing.T) {
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once", "--job", "trending", "--quiet"); r.code != console.ExitDone {
		t.Fatal(r)
	}
	if r := f.run("check"); r.code != console.ExitDone || strings.Contains(r.stdout, "can read") {
		t.Errorf("new files: left with %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, name := range []string{"ledger.db", "catalog.db"} {
		if err := os.Chmod(f.path(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := f.run("check")
	for _, name := range []string{"ledger.db", "catalog.db"} {
		if want := "other users can read " + f.path(name) + "\n         To prevent that: chmod 600 " + f.path(name); r.code != console.ExitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("left with %d, want %q\n%s%s", r.code, want, r.stdout, r.stderr)
		}
		if info, err := os.Stat(f.path(name)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v, %v: a file of the user's stays as it is", name, info.Mode(), err)
		}
	}
}
