package sqlitestore_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

func (s *site) mustFail(what string, err error, why string) {
	s.Helper()
	if err == nil || !strings.Contains(err.Error(), why) {
		s.Errorf("%s: %v; want it to say %q", what, err, why)
	}
}

// A backup is made while a process spends. To restore it needs the ledger to be unused,
// says what it lacks, and is noticed.
func TestBackupAndRestore(t *testing.T) {
	s := newSite(t)
	ledger, backup := s.path("ledger.db"), s.path("backup.db")
	store, end := s.process()
	if _, err := store.Reserve(t.Context(), quota.Request{Charges: charge("units", 30)}); err != nil {
		t.Fatal(err)
	}
	if err := sqlitestore.Backup(t.Context(), ledger, backup); err != nil {
		t.Fatal(err)
	}
	s.mustFail("a second backup", sqlitestore.Backup(t.Context(), ledger, backup), "there is a file already; name another one")
	s.clock.Advance(time.Minute)
	for _, c := range [][]quota.Charge{charge("units", 50), charge("more", 7)} {
		if _, err := store.Reserve(t.Context(), quota.Request{Charges: c}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := sqlitestore.Restore(t.Context(), backup, ledger)
	s.mustFail("while a process uses it", err, "a process uses it; stop every process that does")
	if v, err := store.Reserve(t.Context(), quota.Request{Charges: charge("units", 1)}); err != nil || v.Used != 81 {
		t.Errorf("the process that used it: %+v, %v", v, err)
	}
	end()

	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's mode is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(ledger, 0o664); err != nil {
		t.Fatal(err)
	}
	lack, err := sqlitestore.Restore(t.Context(), backup, ledger)
	want := []sqlitestore.Lack{
		{Pool: charge("more", 0)[0].Pool, Units: 7},
		{Pool: charge("units", 0)[0].Pool, Units: 51, Since: s.clock.Now().Add(-time.Minute)},
	}
	if err != nil || !slices.Equal(lack, want) {
		t.Errorf("it lacks %+v, %v; want %+v", lack, err, want)
	}
	if info, err := os.Stat(ledger); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	s.mustBeForgotten("after the restore")
	s.putBack(51)
	s.mustSpend("put back", "units", 1, 82)

	s.remove()
	if lack, err := sqlitestore.Restore(t.Context(), backup, ledger); err != nil || len(lack) != 0 {
		t.Errorf("in the place of a file that is gone: %v, %v", lack, err)
	}
	s.mustBeForgotten("after the file was gone")
}

func TestRestoreOfWhatIsNoLedger(t *testing.T) {
	s := newSite(t)
	s.mustSpend("at first", "units", 30, 30)
	ledger := s.path("ledger.db")
	if err := os.WriteFile(s.path("text"), []byte("this is a text, and no ledger at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.backup()
	whole, err := os.ReadFile(s.path("backup.db"))
	if err != nil {
		t.Fatal(err)
	}
	for i := len(whole) / 2; i < len(whole)/2+9000; i++ {
		whole[i] = 0xff
	}
	if err := os.WriteFile(s.path("damaged"), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		"text": "no SQLite database", "damaged": "damaged", "nothing": "no such file", "journal-ledger.db": "a database of another program",
	} {
		_, err := sqlitestore.Restore(t.Context(), s.path(name), ledger)
		s.mustFail(name, err, why)
		s.mustFail("back up "+name, sqlitestore.Backup(t.Context(), s.path(name), s.path("copy.db")), why)
	}
	names, err := os.ReadDir(s.dir)
	for _, f := range names {
		if strings.HasSuffix(f.Name(), ".part") || strings.HasSuffix(f.Name(), ".restored") || f.Name() == "copy.db" {
			err = errors.Join(err, errors.New(f.Name()+" was left behind"))
		}
	}
	if err != nil {
		t.Error(err)
	}
	s.mustSpend("the ledger is as it was", "units", 1, 31)
}
