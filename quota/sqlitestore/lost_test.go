package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
	"github.com/headroom-quota/headroom/quota/window"
)

// site is a place with a ledger and the journal that remembers it.
type site struct {
	*testing.T
	dir   string
	clock *quota.SimClock
}

func newSite(t *testing.T) *site {
	return &site{t, t.TempDir(), quota.NewSimClock(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// process is what one process has open; it lasts until close.
func (s *site) process() (*sqlitestore.Store, func()) {
	s.Helper()
	ledger, err := sqlitestore.Canonical(s.path("ledger.db"))
	if err != nil {
		s.Fatal(err)
	}
	j, err := journal.Open(s.Context(), s.path("journal-ledger.db"), ledger)
	if err != nil {
		s.Fatal(err)
	}
	store, err := sqlitestore.Open(s.Context(), s.path("ledger.db"), &sqlitestore.Options{Clock: s.clock, Births: j})
	if err != nil {
		s.Fatal(err)
	}
	return store, func() {
		s.Helper()
		if err := errors.Join(store.Close(), j.Close()); err != nil {
			s.Error(err)
		}
	}
}

func charge(pool string, n int64) []quota.Charge {
	spec, err := window.Spec{Per: 24 * time.Hour}.Normal()
	if err != nil {
		panic(err)
	}
	return []quota.Charge{{
		Pool: quota.Pool{Upstream: "api", Account: quota.DefaultAccount, Name: pool}, Units: n, Revision: 1,
		Windows: []window.Limit{window.NewLimit(spec, 100)},
	}}
}

// spend is a process that reserves units, and returns how many are used then.
func (s *site) spend(pool string, n int64) (int64, error) {
	s.Helper()
	store, end := s.process()
	defer end()
	v, err := store.Reserve(s.Context(), quota.Request{Charges: charge(pool, n)})
	return v.Used, err
}

func (s *site) mustSpend(what, pool string, n, want int64) {
	s.Helper()
	if used, err := s.spend(pool, n); err != nil || used != want {
		s.Errorf("%s: %d used, %v; want %d", what, used, err, want)
	}
}

func (s *site) mustBeForgotten(what string) {
	s.Helper()
	store, end := s.process()
	defer end()
	c := charge("units", 1)
	_, reserve := store.Reserve(s.Context(), quota.Request{Charges: c})
	_, look := store.Look(s.Context(), c)
	_, record := store.Record(s.Context(), quota.Request{Charges: c})
	for op, err := range map[string]error{
		"reserve": reserve, "look": look,
		"record": record,
		"block":  store.Block(s.Context(), quota.BlockRequest{Charges: c, For: time.Hour}),
	} {
		if lost, ok := errors.AsType[*quota.ForgottenError](err); !ok || !errors.Is(err, quota.ErrOutage) || lost.Pool != c[0].Pool {
			s.Errorf("%s: %s: %v; want that the pool is forgotten", what, op, err)
		}
	}
}

// remove is rm ledger.db*.
func (s *site) remove() {
	s.Helper()
	all, err := filepath.Glob(s.path("ledger.db*"))
	if err != nil || len(all) == 0 {
		s.Fatal(all, err)
	}
	for _, name := range all {
		if err := os.Remove(name); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *site) backup() {
	s.Helper()
	if err := sqlitefile.Snapshot(context.Background(), s.path("ledger.db"), s.path("backup.db")); err != nil {
		s.Fatal(err)
	}
}

func (s *site) restore() {
	s.Helper()
	s.remove()
	if err := os.Rename(s.path("backup.db"), s.path("ledger.db")); err != nil {
		s.Fatal(err)
	}
}

// setBack copies the backup into the file, which others have open.
func (s *site) setBack() {
	s.Helper()
	db, err := sql.Open("sqlite", s.path("ledger.db"))
	if err != nil {
		s.Fatal(err)
	}
	_, err = db.Exec("ATTACH ? AS old; BEGIN; DELETE FROM main.pools; INSERT INTO main.pools SELECT * FROM old.pools; COMMIT", s.path("backup.db"))
	if err := errors.Join(err, db.Close()); err != nil {
		s.Fatal(err)
	}
}

func (s *site) putBack(n int64) {
	s.Helper()
	store, end := s.process()
	defer end()
	if _, err := store.Record(s.Context(), quota.Request{Charges: charge("units", n), Restore: true, Labels: quota.Labels{Reason: "as the console says"}}); err != nil {
		s.Error(err)
	}
}

// A ledger whose file was deleted, or replaced by an older copy, is no empty pool while
// something that was spent may still count.
func TestFileThatLostWhatWasSpent(t *testing.T) {
	for _, tt := range []struct {
		name string
		lose func(s *site)
		has  int64 // what it still knows
	}{
		{"deleted", (*site).remove, 0},
		{"an older copy", (*site).restore, 30},
		{"a copy from before the pool was known", func(s *site) {
			s.remove()
			s.mustSpend("of another pool", "more", 1, 1)
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lost := func(t *testing.T) *site {
				s := newSite(t)
				s.mustSpend("at first", "units", 30, 30)
				s.backup()
				s.clock.Advance(time.Second) // less than memory is kept while a process runs, which ends orderly
				s.mustSpend("then", "units", 60, 90)
				tt.lose(s)
				s.mustBeForgotten("in the next process")
				s.mustSpend("another pool", "other", 1, 1)
				return s
			}
			t.Run("until it is put back", func(t *testing.T) {
				s := lost(t)
				s.putBack(60)
				s.mustSpend("put back", "units", 1, tt.has+61)
				s.mustSpend("and in the next process", "units", 1, tt.has+62)
			})
			t.Run("until it has run out", func(t *testing.T) {
				s := lost(t)
				s.clock.Advance(24*time.Hour + time.Minute) // the window, and its precision
				s.mustSpend("a day later", "units", 1, 1)
			})
			t.Run("and again after it was put back", func(t *testing.T) {
				s := lost(t)
				s.putBack(60)
				s.remove()
				s.mustBeForgotten("deleted once more")
			})
		})
	}
}

// A backup that is as far as the ledger was is no loss, nor is a file that was moved.
func TestFileThatLostNothing(t *testing.T) {
	s := newSite(t)
	s.mustSpend("at first", "units", 30, 30)
	s.backup()
	s.restore()
	s.mustSpend("from a backup that lacks nothing", "units", 1, 31)
	if err := os.Remove(s.path("journal-ledger.db")); err != nil {
		t.Fatal(err)
	}
	s.mustSpend("without a journal", "units", 1, 32)
}

// An older copy is put into the file that a process has open, as sqlite3 can do it.
func TestFileThatIsSetBackUnderAProcess(t *testing.T) {
	s := newSite(t)
	s.mustSpend("at first", "units", 30, 30)
	s.backup()
	store, end := s.process()
	defer end()
	if v, err := store.Reserve(t.Context(), quota.Request{Charges: charge("units", 60)}); err != nil || v.Used != 30+60 {
		t.Fatal(v, err)
	}
	s.clock.Advance(time.Second)
	if v, err := store.Reserve(t.Context(), quota.Request{Charges: charge("units", 1)}); err != nil || v.Used != 91 {
		t.Fatal(v, err)
	}
	s.setBack()
	if v, err := store.Reserve(t.Context(), quota.Request{Charges: charge("units", 1)}); !errors.As(err, new(*quota.ForgottenError)) {
		t.Errorf("%+v, %v; want that the pool is forgotten", v, err)
	}
}

// A file and its copy have one identity. A file that was moved is no copy.
func TestCopyOf(t *testing.T) {
	s := newSite(t)
	of := func(name string) string {
		t.Helper()
		store, err := sqlitestore.Open(t.Context(), s.path(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		other, err := store.CopyOf(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	if got := of("ledger.db"); got != "" {
		t.Errorf("a new file is a copy of %s", got)
	}
	s.backup()
	if got := of("backup.db"); got != s.path("ledger.db") {
		t.Errorf("a copy is one of %q", got)
	}
	if got := of("ledger.db"); got != "" {
		t.Errorf("the original is a copy of %s", got)
	}
	s.remove()
	if got := of("backup.db"); got != "" {
		t.Errorf("of a file that is gone it is still a copy: %s", got)
	}
}
