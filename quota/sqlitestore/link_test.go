package sqlitestore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// A link to a ledger names the ledger, also when that was deleted.
func TestALinkToAFileThatIsGoneNamesTheFile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	ledger := filepath.Join(dir, "real", "ledger.db")
	for link, to := range map[string]string{
		"direct.db": ledger, "relative.db": "real/ledger.db", "twice.db": "relative.db", "through": "real", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"direct.db", "relative.db", "twice.db", "through/ledger.db", "real/ledger.db"} {
		if got, err := sqlitestore.Canonical(filepath.Join(dir, link)); err != nil || got != "sqlite:"+ledger {
			t.Errorf("%s: %s, %v; want %s", link, got, err, ledger)
		}
	}
	if got, err := sqlitestore.Canonical(filepath.Join(dir, "loop")); err != nil || got != "sqlite:"+filepath.Join(dir, "loop") {
		t.Errorf("a link to itself: %s, %v", got, err)
	}
}

// A backup is restored over the file that a link names, by paths that begin here.
func TestBackupAndRestoreByRelativePathsAndLinks(t *testing.T) {
	s := newSite(t)
	s.mustSpend("at first", "units", 30, 30)
	if err := os.Symlink("ledger.db", s.path("link.db")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(s.dir)
	if err := sqlitestore.Backup(t.Context(), "link.db", "backup.db"); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Minute)
	s.mustSpend("after the backup", "units", 5, 35)
	lack, err := sqlitestore.Restore(t.Context(), "backup.db", "link.db")
	if err != nil || len(lack) != 1 || lack[0].Units != 5 {
		t.Errorf("it lacks %+v, %v; want 5 units", lack, err)
	}
	if to, err := os.Readlink("link.db"); err != nil || to != "ledger.db" {
		t.Errorf("the link names %q, %v", to, err)
	}
	s.mustBeForgotten("after the restore")
}
