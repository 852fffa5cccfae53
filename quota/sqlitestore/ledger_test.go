package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/filetest"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/storekit"
)

var noon = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC) // in California

func TestEveryConnectionIsSynchronous(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	ctx := context.Background()
	if got, err := s.file.Writer.Number("PRAGMA synchronous"); got != 2 {
		t.Errorf("the writer has synchronous %v (%v), want 2", got, err)
	}
	for i := range sqlitefile.Readers { // all of them at once
		view, err := s.file.view(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := view.End(nil); err != nil {
				t.Error(err)
			}
		}()
		for setting, want := range map[string]int64{"synchronous": 2, "query_only": 1} {
			if got, err := view.Number("PRAGMA " + setting); got != want || err != nil {
				t.Errorf("reader %d has %s %d (%v), want %d", i, setting, got, err, want)
			}
		}
	}
	for setting, otherwise := range map[string]string{
		"_synchronous=FULL": "_synchronous=NORMAL", "_foreign_keys=ON": "_foreign_keys=OFF", "_busy_timeout=5": "_busy_timeout=60000",
	} {
		changed := strings.Replace(files.DSN(s.file.Path, sqlitefile.Read), setting, otherwise, 1)
		c, err := files.Connector(changed)
		if err != nil || changed == files.DSN(s.file.Path, sqlitefile.Read) {
			t.Fatal(changed, err)
		}
		_, err = c.Connect(ctx)
		filetest.Says(t, err, otherwise[1:strings.Index(otherwise, "=")], "not")
	}
}

func TestForgottenPool(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct{ name, spoil string }{
		{"its_row_deleted", "DELETE FROM pools"},
		{"its_row_reborn", "UPDATE pools SET stamp = 1, page = (SELECT page FROM other.pools)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := quota.NewSimClock(noon)
			dir := t.TempDir()
			path, other := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "other.db")
			s := must(t, path, &Options{Clock: clock})
			first, err := reserve(s, "a", 5)
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Hour)
			o := must(t, other, &Options{Clock: clock})
			if _, err := reserve(o, "a", 1); err != nil {
				t.Fatal(err)
			}
			kept.Spoil(t, path, "ATTACH '"+other+"' AS other; "+tt.spoil)

			charges := []quota.Charge{units(1, math.MaxInt32)}
			for _, s := range []*Store{s, must(t, path, &Options{Clock: clock})} {
				_, fresh := reserve(s, "b", 1)
				_, again := reserve(s, "a", 5)
				_, settle := s.Settle(ctx, first.Token(), quota.Units{"units": 0})
				_, look := s.Look(ctx, charges)
				for op, err := range map[string]error{
					"reserve": fresh, "repeat": again, "settle": settle, "look": look,
					"record": errOf(s.Record(ctx, quota.Request{Charges: charges})),
					"block":  s.Block(ctx, quota.BlockRequest{Charges: charges, For: time.Hour}),
				} {
					forgotten, ok := errors.AsType[*quota.ForgottenError](err)
					if !ok || !forgotten.Born.Equal(noon) || forgotten.Pool != charges[0].Pool || !errors.Is(err, quota.ErrOutage) {
						t.Errorf("%s: %v, want that the pool is forgotten", op, err)
					}
				}
			}
			before := used(t, o) // of the page that was put in, or 0
			if tt.name == "its_row_deleted" {
				before = 0
			}
			if _, err := s.Record(ctx, quota.Request{Charges: []quota.Charge{units(7, 10)}, Restore: true}); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Store{s, must(t, path, &Options{Clock: clock})} {
				if used := used(t, s); used != before+7 {
					t.Errorf("put back: %d units are used, want %d", used, before+7)
				}
				if _, err := reserve(s, "", 1); err != nil {
					t.Error(err)
				}
				before++
			}
			spent, err := s.Spend(ctx, quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount})
			if err != nil || len(spent) != 1 || spent[0].Units != 5+7+2 {
				t.Errorf("spend is %+v (%v), want that of before too", spent, err)
			}
		})
	}
	t.Run("once_its_windows_have_run_out_it_is_new", func(t *testing.T) {
		clock := quota.NewSimClock(noon)
		path := filepath.Join(t.TempDir(), "ledger.db")
		s := must(t, path, &Options{Clock: clock})
		if _, err := reserve(s, "a", 5); err != nil {
			t.Fatal(err)
		}
		kept.Spoil(t, path, "DELETE FROM pools")
		clock.Advance(24 * time.Hour)
		if _, err := reserve(s, "b", 1); !errors.Is(err, quota.ErrOutage) {
			t.Errorf("after a day: %v, want an outage", err)
		}
		clock.Advance(24 * time.Hour)
		if v, err := reserve(s, "b", 1); err != nil || v.Used != 1 {
			t.Errorf("after two days: %+v %v, want a new page", v, err)
		}
	})
	t.Run("a_birth_that_is_gone_is_made_good", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		s := must(t, path, nil)
		if _, err := reserve(s, "a", 5); err != nil {
			t.Fatal(err)
		}
		s.Close()
		kept.Spoil(t, path, "PRAGMA foreign_keys = OFF; DELETE FROM births")
		if v, err := reserve(must(t, path, nil), "b", 1); err != nil || v.Used != 6 {
			t.Errorf("%+v %v, want 6 used", v, err)
		}
	})
}

// A clock that had been far ahead makes nothing too old, whichever process asks.
func TestSpendAndReceiptsOutliveAClockFarAhead(t *testing.T) {
	clock := quota.NewSimClock(noon)
	path := filepath.Join(t.TempDir(), "ledger.db")
	s, other := must(t, path, &Options{Clock: clock}), must(t, path, &Options{Clock: clock})
	step := func(s *Store, at time.Time, id string) quota.Verdict {
		t.Helper()
		clock.Set(at)
		v, err := reserve(s, id, 1)
		if err != nil || !v.Allowed {
			t.Fatalf("at %s: %+v %v", at, v, err)
		}
		return v
	}
	far := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	step(s, noon, "a")
	step(s, far, "b")
	step(other, far.Add(time.Minute), "c")
	if v := step(s, noon.Add(time.Hour), "a"); !v.Repeat {
		t.Error("reserved once more, it was charged again")
	}
	spent, err := s.Spend(t.Context(), quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount, Until: clock.Now()})
	if err != nil || len(spent) != 1 || spent[0].Units != 1 {
		t.Errorf("spend is %+v (%v), want the unit of before", spent, err)
	}
}

func TestPrune(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), &Options{Clock: clock})
	rows := func() int64 {
		n, err := s.file.Writer.Number("SELECT count(*) FROM reservations")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	perDay := 12
	for day := range 100 {
		for i := range perDay {
			clock.Set(noon.Add(time.Duration(day)*24*time.Hour + time.Duration(i)*24*time.Hour/time.Duration(perDay)))
			if _, err := reserve(s, "", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	most := int64(perDay) * int64(storekit.KeptFor/(24*time.Hour)+2)
	if n := rows(); n < int64(perDay*storekit.SpendDays) || n > most {
		t.Errorf("%d rows are left of 100 days, want at most %d", n, most)
	}
	spent, err := s.Spend(context.Background(), quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount})
	if err != nil || len(spent) < storekit.SpendDays {
		t.Fatalf("spend of %d days %v, want at least %d", len(spent), err, storekit.SpendDays)
	}
	for _, day := range spent[1 : len(spent)-1] { // the first and the last day are incomplete
		if day.Calls != int64(perDay) {
			t.Errorf("%s shows %d calls, want %d: a day is shown whole or not at all", day.Day, day.Calls, perDay)
		}
	}
	if last := spent[len(spent)-1]; last.Calls != int64(perDay) {
		t.Errorf("the oldest, %s, shows %d calls, want %d", last.Day, last.Calls, perDay)
	}

	clock.Advance(100 * 24 * time.Hour)
	all := rows()
	if _, err := reserve(s, "", 1); err != nil || rows() != all+1 {
		t.Errorf("%d rows of %d are left (%v): the clock may be set back yet", rows(), all, err)
	}
	clock.Advance(restFor) // many at once go a few at a time
	before := rows()
	for range 5 {
		if _, err := reserve(s, "", 1); err != nil {
			t.Fatal(err)
		}
	}
	if gone := before + 5 - rows(); gone <= 0 || gone > 5*pruned {
		t.Errorf("5 writes deleted %d rows, want some, at most %d", gone, 5*pruned)
	}
	for range perDay * 40 {
		if _, err := reserve(s, "", 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := rows(); n != int64(perDay*40+6) {
		t.Errorf("%d rows are left, want only the %d of today", n, perDay*40+6)
	}
}

// A person can read the file, with Debian's sqlite3 if it is there.
func TestReadable(t *testing.T) {
	clock := quota.NewSimClock(noon)
	path := filepath.Join(t.TempDir(), "my ledger? 100%#1.db")
	s := must(t, path, &Options{Clock: clock})
	v, err := s.Reserve(context.Background(), quota.Request{
		ID: "call 1", Charges: []quota.Charge{units(5, 100)},
		Labels: quota.Labels{Method: "videos.list", Job: "trending", Region: "DE", Class: "backfill"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(context.Background(), v.Token(), quota.Units{"units": 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.Block(context.Background(), quota.BlockRequest{Charges: []quota.Charge{units(0, 100)}, For: time.Hour, Reason: "quotaExceeded"}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"SELECT * FROM spent": "2026-11-20 20:00:00|2026-11-20|youtube|default|units|videos.list|trending|DE|backfill||3|1|settled|call 1|",
		"SELECT * FROM pages": "youtube|default|units|24h, day America/Los_Angeles|3, 3|1|2026-11-20 20:00:00|2026-11-20 20:00:00|blocked until 2026-11-20 21:00:00 UTC: quotaExceeded",
	} {
		if got := shell(t, s, query); got != want {
			t.Errorf("%s says\n%s\nwant\n%s", query, got, want)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 3 {
		t.Errorf("the directory has %v (%v), want the file with its -wal and -shm", entries, err)
	}
}

func shell(t *testing.T, s *Store, query string) string {
	bin, err := exec.LookPath("sqlite3")
	if err == nil {
		out, err := exec.Command(bin, "-readonly", s.file.Path, query).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	t.Log("there is no sqlite3 here; asked by the driver")
	view, err := s.file.view(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	err = view.Rows(query, nil, func(r sqlitefile.Row) error {
		for _, v := range r {
			values = append(values, fmt.Sprint(v))
		}
		return nil
	})
	if err = view.End(err); err != nil {
		t.Fatal(err)
	}
	return strings.Join(values, "|")
}

func TestFamiliesAreRefusedUnlessAskedFor(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	c := units(1, 10)
	c.Pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: "203.0.113.7"}
	_, reserve := s.Reserve(context.Background(), quota.Request{Charges: []quota.Charge{c}})
	_, look := s.Look(context.Background(), []quota.Charge{c})
	for op, err := range map[string]error{
		"reserve": reserve, "look": look, "record": errOf(s.Record(context.Background(), quota.Request{Charges: []quota.Charge{c}})),
	} {
		if !errors.Is(err, quota.ErrBadInput) {
			t.Errorf("%s: %v, want bad input", op, err)
		} else {
			filetest.Says(t, err, "client:203.0.113.7", "Families")
		}
	}
}

// A process sees at once what another process has written to a page.
func TestPageIsNotStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	a, b := must(t, path, nil), must(t, path, nil)
	for i := range 20 {
		s := []*Store{a, b}[i/2%2]
		if v, err := reserve(s, fmt.Sprint(i), 1); err != nil || v.Used != int64(i+1) {
			t.Fatalf("reservation %d: %+v %v", i, v, err)
		}
	}
}

// A store remembers nothing of a transaction that was not committed.
func TestNothingOfAFailedTransactionStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, nil)
	searches := units(1, 10)
	searches.Pool.Name = "searches"
	both := quota.Request{Charges: []quota.Charge{units(1, math.MaxInt32), searches}}
	if _, err := s.Reserve(context.Background(), both); err != nil {
		t.Fatal(err)
	}
	kept.Spoil(t, path, "CREATE TRIGGER fault BEFORE UPDATE ON pools BEGIN SELECT RAISE (ABORT, 'a fault'); END")
	_, err := s.Reserve(context.Background(), both)
	filetest.Says(t, err, "a fault")
	kept.Spoil(t, path, "DROP TRIGGER fault")
	if v, err := s.Reserve(context.Background(), both); err != nil || v.Pool != searches.Pool || v.Used != 2 {
		t.Errorf("%+v %v, want the second search", v, err)
	}
}

func TestMembersIdleLongestGoFirst(t *testing.T) {
	clock := quota.NewSimClock(noon)
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), &Options{Clock: clock, Families: true})
	ask := func(key string) quota.Verdict {
		c := units(1, 10)
		c.Windows, c.MaxKeys = c.Windows[:1], 10
		c.Pool = quota.Pool{Upstream: "client", Account: quota.DefaultAccount, Key: key}
		v, err := s.Reserve(context.Background(), quota.Request{Charges: []quota.Charge{c}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for i := range 10 {
		ask(fmt.Sprint("key ", i))
		clock.Advance(time.Hour)
	}
	if v := ask("new"); !v.Overflow {
		t.Errorf("%+v, want no page of its own: all others count", v)
	}
	clock.Set(noon.Add(25 * time.Hour))
	if v := ask("new"); v.Overflow || v.Used != 1 {
		t.Errorf("%+v, want a page of its own: the oldest is idle", v)
	}
	if v := ask("key 9"); v.Used != 2 {
		t.Errorf("%+v, want 2 used", v)
	}
}

// A page that had been far ahead is moved to now once, not by each process.
func TestRebasedOnce(t *testing.T) {
	clock := quota.NewSimClock(noon.AddDate(73, 0, 0))
	path := filepath.Join(t.TempDir(), "ledger.db")
	a, b := must(t, path, &Options{Clock: clock}), must(t, path, &Options{Clock: clock})
	ask := func(s *Store) quota.Verdict {
		v, err := s.Reserve(context.Background(), quota.Request{Charges: []quota.Charge{units(10, 10)}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := ask(a); !v.Allowed {
		t.Fatalf("%+v", v)
	}
	clock.Set(noon)
	if v := ask(a); v.Allowed || !v.Rebased {
		t.Errorf("back from far ahead: %+v, want it refused and re-based", v)
	}
	if v := ask(b); v.Allowed || v.Rebased {
		t.Errorf("asked again by another process: %+v, want it refused only", v)
	}
}

func TestStepsOfTheSchemaAreNumbered(t *testing.T) {
	names, err := fs.Glob(schemaFiles, "schema/*")
	if err != nil || len(files.Steps) == 0 || len(files.Steps) != len(names) {
		t.Errorf("%d steps in %v (%v)", len(files.Steps), names, err)
	}
}

// errOf is the error of a call whose answer does not matter.
func errOf[T any](_ T, err error) error { return err }
