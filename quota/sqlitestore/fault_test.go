package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/quota"
)

// reserve reserves units under an id.
func reserve(s *Store, id string, n int64) (quota.Verdict, error) {
	return s.Reserve(context.Background(), quota.Request{ID: id, Charges: []quota.Charge{units(n, math.MaxInt32)}})
}

// says checks that an error has words that help.
func says(t testing.TB, err error, words ...string) {
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

// spoil changes the file by another connection, as a person with sqlite3 does.
func spoil(t testing.TB, path, text string) {
	t.Helper()
	c, err := files.Connector(files.DSN(path, sqlitefile.Write))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, err = got.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	if err := errors.Join(err, got.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newer, other, strange := filepath.Join(dir, "newer.db"), filepath.Join(dir, "other.db"), file("strange.db", strings.Repeat("no database at all\n", 500))
	must(t, newer, nil).Close()
	spoil(t, newer, "PRAGMA user_version = 9")
	spoil(t, other, "CREATE TABLE videos (id)")
	spoil(t, other, "PRAGMA journal_mode = DELETE") // as most have it
	for _, tt := range []struct {
		name, path string
		words      []string
	}{
		{"a_missing_directory", filepath.Join(dir, "no", "such", "ledger.db"), []string{"there is no directory", "mkdir -p '" + filepath.Join(dir, "no", "such") + "'"}},
		{"a_directory", dir, []string{"is a directory", filepath.Join(dir, "ledger.db")}},
		{"a_file_for_a_directory", filepath.Join(strange, "ledger.db"), []string{"open " + strange, "directory"}},
		{"no_database", strange, []string{"open " + strange, "is no SQLite database", "was left as it is"}},
		{"a_newer_schema", newer, []string{"it was made by a newer headroom: schema 9, this one knows 8; upgrade"}},
		{"the_database_of_another_program", other, []string{"another program"}},
		{"no_name", "", []string{"name a file"}},
		{"memory", ":memory:", []string{"memstore"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := os.ReadFile(tt.path)
			s, err := Open(context.Background(), tt.path, nil)
			if s != nil {
				s.Close()
			}
			says(t, err, tt.words...)
			if after, _ := os.ReadFile(tt.path); !slices.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
}

// stuckClock stands for a transaction that does not come to an end.
type stuckClock struct {
	quota.SystemClock
	reached, released chan struct{}
}

func (c stuckClock) Now() time.Time {
	c.reached <- struct{}{}
	<-c.released
	return c.SystemClock.Now()
}

// A transaction of the same process is waited for no longer than the file.
func TestBusyProcess(t *testing.T) {
	clock := stuckClock{reached: make(chan struct{}), released: make(chan struct{})}
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), &Options{Wait: 20 * time.Millisecond, Clock: clock})
	first := make(chan error)
	go func() {
		_, err := reserve(s, "a", 1)
		first <- err
	}()
	<-clock.reached
	_, err := reserve(s, "b", 1)
	says(t, err, "write to "+s.file.Path, "busy for 20ms", "this process")
	close(clock.released)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestFileTakenAway(t *testing.T) {
	for _, tt := range []struct {
		name string
		take func(path string) error
		word string
	}{
		{"deleted", os.Remove, "was deleted"},
		{"the_wal_deleted", func(path string) error { return os.Remove(path + "-wal") }, "-wal was"},
		{"the_shm_deleted", func(path string) error { return os.Remove(path + "-shm") }, "was deleted"},
		{"replaced", func(path string) error {
			other, err := Open(context.Background(), path+".new", nil)
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
			other, err := Open(context.Background(), path, nil)
			if err == nil {
				t.Cleanup(func() { other.Close() })
			}
			return err
		}, "was replaced"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			s := must(t, path, nil)
			first, err := reserve(s, "a", 5)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.take(path); err != nil {
				t.Fatal(err)
			}
			ctx, charges := context.Background(), []quota.Charge{units(1, 10)}
			_, reserve := reserve(s, "b", 1)
			_, settle := s.Settle(ctx, first.Token(), quota.Units{"units": 0})
			_, look := s.Look(ctx, charges)
			_, spend := s.Spend(ctx, quota.SpendQuery{Upstream: "youtube", Account: quota.DefaultAccount})
			for op, err := range map[string]error{
				"reserve": reserve, "settle": settle, "look": look, "spend": spend,
				"record": errOf(s.Record(ctx, quota.Request{Charges: charges})),
				"block":  s.Block(ctx, quota.BlockRequest{Charges: charges, For: time.Hour}),
			} {
				if !errors.Is(err, quota.ErrOutage) {
					t.Errorf("%s: %v, want an outage", op, err)
				} else {
					says(t, err, path, tt.word)
				}
			}
		})
	}
}

func TestDamagedPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := must(t, path, nil)
	if _, err := reserve(s, "a", 5); err != nil {
		t.Fatal(err)
	}
	spoil(t, path, "UPDATE pools SET stamp = 1, page = x'010203'")
	_, err := reserve(s, "b", 1)
	says(t, err, "youtube/units", path, "is damaged", "table pools")
	_, err = s.Look(context.Background(), []quota.Charge{units(0, 10)})
	says(t, err, "youtube/units", "is damaged")
	if _, err := reserve(must(t, path, nil), "b", 1); err == nil {
		t.Error("granted by another process")
	}

	spoil(t, path, "DELETE FROM pools") // as the error says to
	if _, err := s.Record(context.Background(), quota.Request{Charges: []quota.Charge{units(5, 10)}, Restore: true}); err != nil {
		t.Fatal(err)
	}
	if used := used(t, s); used != 5 {
		t.Errorf("%d units are used, want the 5 that were put back", used)
	}
}

func TestCancelledBeforeNothingIsWritten(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Settle(ctx, quota.Token{}, nil); err != context.Canceled { //nolint:errorlint // unchanged is the promise
		t.Errorf("settle: %v, want %v as it is", err, context.Canceled)
	}
	if _, err := Open(ctx, filepath.Join(t.TempDir(), "new.db"), nil); err != context.Canceled { //nolint:errorlint // likewise
		t.Errorf("open: %v, want %v as it is", err, context.Canceled)
	}
}

func TestClosed(t *testing.T) {
	s := must(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := reserve(s, "a", 1)
	says(t, err, "closed")
	_, err = s.Look(context.Background(), []quota.Charge{units(1, 10)})
	says(t, err, "")
}
