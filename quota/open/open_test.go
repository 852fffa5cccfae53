package open_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headroom-quota/headroom"
	"github.com/headroom-quota/headroom/internal/testing/redistest"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/breaker"
	"github.com/headroom-quota/headroom/quota/journal"
	"github.com/headroom-quota/headroom/quota/lease"
	"github.com/headroom-quota/headroom/quota/open"
	"github.com/headroom-quota/headroom/quota/sqlitestore"
)

// options are those of a machine with this folder.
func options(t *testing.T, state string) *open.Options {
	t.Helper()
	book, err := headroom.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return &open.Options{Book: book, State: state, Logger: slog.New(slog.DiscardHandler)}
}

// with opens a ledger, and closes it when it is done.
func with(t *testing.T, address string, o *open.Options, do func(*open.Opened)) {
	t.Helper()
	opened, err := open.Open(t.Context(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	do(opened)
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}

// reserve reserves a call that is refused in an outage.
func reserve(ctx context.Context, o *open.Opened) error {
	_, err := o.Ledger.Reserve(ctx, quota.Call{Method: "videos.list", Outage: quota.Refuse})
	return err
}

// redisServer starts a server that is not set up for a ledger.
func redisServer(t *testing.T) *redistest.Server {
	t.Helper()
	s, err := redistest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

func TestOpenWithoutABookMakesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []*open.Options{nil, {}} {
		if _, err := open.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), o); !errors.Is(err, quota.ErrBadInput) || !strings.Contains(err.Error(), "headroom.Load") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 0 {
		t.Errorf("it has made %v, %v", all, err)
	}
}

func TestLostLedgerIsNoticedUnlessItIsFresh(t *testing.T) {
	dir, o := t.TempDir(), options(t, t.TempDir())
	path := filepath.Join(dir, "ledger.db")
	for n, row := range []struct {
		address          string
		lose, remembered bool
		want             error
	}{
		{"sqlite:" + path, false, false, nil},
		{"sqlite:" + path, false, true, nil},
		{"sqlite:" + path, true, true, quota.ErrOutage},
		{"sqlite:" + path + "?fresh", false, false, nil},
		{"sqlite:" + path, false, true, nil},
	} {
		if row.lose {
			for _, name := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + name); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
		with(t, row.address, o, func(opened *open.Opened) {
			if opened.Remembered != row.remembered {
				t.Errorf("%d: remembered %t, want %t", n, opened.Remembered, row.remembered)
			}
			if err := reserve(t.Context(), opened); !errors.Is(err, row.want) {
				t.Errorf("%d: %v, want %v", n, err, row.want)
			}
		})
	}
	o.Fresh = true
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	with(t, "sqlite:"+path, o, func(opened *open.Opened) {
		if err := reserve(t.Context(), opened); err != nil {
			t.Errorf("with Fresh: %v", err)
		}
	})
}

// A ledger in a file is down while somebody has locked it. The price book says that
// videos.list is admitted then.
func TestLockedFileAdmitsCallsAndChargesThemLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	with(t, "sqlite:"+path, options(t, ""), func(opened *open.Opened) {
		db, err := sql.Open("sqlite", path) // another process, for all that SQLite knows
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		other, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		r, err := opened.Ledger.Reserve(t.Context(), quota.Call{Method: "videos.list"})
		if err != nil || !r.Outage {
			t.Fatalf("a call to admit while the ledger is locked: %v", err)
		}
		if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if r, err := opened.Ledger.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil || r.Outage {
			t.Fatalf("a call when it is back: %v", err)
		}
		spent, err := opened.Ledger.View().Spend(t.Context(), quota.SpendQuery{Upstream: "youtube"})
		if err != nil || len(spent) != 1 || spent[0].Units != 2 {
			t.Errorf("spent %+v, %v; want the call that was admitted and the one after it", spent, err)
		}
		if waiting, err := opened.Journal.Pending(t.Context()); err != nil || len(waiting) != 0 {
			t.Errorf("%d calls wait, %v", len(waiting), err)
		}
	})
}

// A user who can open a ledger can open its journal.
func TestJournalHasTheModeOfItsLedger(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	if err := os.WriteFile(path, nil, 0o660); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o660); err != nil { // whatever the umask says
		t.Fatal(err)
	}
	with(t, "sqlite:"+path, options(t, ""), func(*open.Opened) {})
	info, err := os.Stat(filepath.Join(dir, "journal-ledger.db"))
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestLinkedLedgerHasTheJournalAndLocksOfItsFile(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	link, file := filepath.Join(state, "link.db"), filepath.Join(dir, "ledger.db")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	at, err := open.Parse("sqlite:" + link)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "journal-ledger.db")
	if path, err := at.Journal(state); err != nil || path != want {
		t.Errorf("%s, %v, want %s", path, err, want)
	}
	with(t, "sqlite:"+link, options(t, state), func(opened *open.Opened) {
		if opened.Journal.Path() != want {
			t.Errorf("opened %s, want %s", opened.Journal.Path(), want)
		}
		lock, err := opened.Lock(t.Context(), "default/charts")
		if err != nil {
			t.Fatal(err)
		}
		with(t, "sqlite:"+file, options(t, state), func(direct *open.Opened) {
			if _, err := direct.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) {
				t.Errorf("a job that is held under the ledger's other name: %v", err)
			}
		})
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestCopyOfAFileIsAWarning(t *testing.T) {
	dir, o := t.TempDir(), options(t, "")
	path, other := filepath.Join(dir, "ledger.db"), filepath.Join(dir, "copy.db")
	with(t, "sqlite:"+path, o, func(opened *open.Opened) {
		if len(opened.Warnings) != 0 {
			t.Errorf("of the original: %q", opened.Warnings)
		}
	})
	if err := sqlitestore.Backup(t.Context(), path, other); err != nil {
		t.Fatal(err)
	}
	with(t, "sqlite:"+other, o, func(opened *open.Opened) {
		if len(opened.Warnings) != 1 || !strings.Contains(opened.Warnings[0], "a copy of "+path) {
			t.Errorf("of the copy: %q", opened.Warnings)
		}
	})
}

func TestServerThatIsNotSetUpIsAWarning(t *testing.T) {
	with(t, "redis://"+redisServer(t).Addr, options(t, t.TempDir()), func(opened *open.Opened) {
		if len(opened.Warnings) == 0 || !strings.Contains(opened.Warnings[0], "appendonly") {
			t.Errorf("%q", opened.Warnings)
		}
	})
}

// Two ledgers on servers that are copies of each other share a machine's journal.
func TestCopyOfAServerIsAWarning(t *testing.T) {
	original, replica, o := redisServer(t), redisServer(t), options(t, t.TempDir())
	with(t, "redis://"+original.Addr, o, func(opened *open.Opened) {
		if err := reserve(t.Context(), opened); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(replica.Follow(t.Context(), original), replica.CatchUp(t.Context(), original), replica.Lead(t.Context())); err != nil {
		t.Fatal(err)
	}
	with(t, "redis://"+replica.Addr, o, func(opened *open.Opened) {
		if err := reserve(t.Context(), opened); err != nil {
			t.Fatal(err)
		}
	})
	with(t, "redis://"+original.Addr, o, func(opened *open.Opened) {
		if all := strings.Join(opened.Warnings, "\n"); !strings.Contains(all, "the one at redis://"+replica.Addr) || !strings.Contains(all, "have one identity") {
			t.Errorf("%q", all)
		}
	})
}

func TestOpenEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		if c, err := silent.Accept(); err == nil {
			stop()
			_ = c.Close()
		}
	}()
	var log strings.Builder
	o := options(t, t.TempDir())
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := open.Open(ctx, "redis://"+silent.Addr().String(), o); !errors.Is(err, context.Canceled) || log.Len() > 0 {
		t.Errorf("a program that is told to stop while the server is silent: %v, %s", err, &log)
	}
}

// The journal lies in the folder of the user's programs if nobody names one. It is
// what admitted calls wait in.
func TestServerThatIsDownIsNoError(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	o := options(t, "")
	with(t, "redis://127.0.0.1:1", o, func(opened *open.Opened) {
		refuse := quota.Call{Method: "videos.list", Outage: quota.Refuse}
		if _, err := opened.Ledger.Reserve(t.Context(), refuse); !errors.Is(err, quota.ErrOutage) {
			t.Errorf("a call that is to be refused: %v", err)
		}
		known := false // to be down
		for end := time.Now().Add(time.Minute); !known && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			_, err := opened.Ledger.Reserve(t.Context(), refuse)
			known = errors.Is(err, breaker.ErrOpen)
		}
		if !known {
			t.Error("no call says that the server is known to be down")
		}
		admit := quota.Call{Method: "videos.list", Outage: quota.Admit}
		if r, err := opened.Ledger.Reserve(t.Context(), admit); err != nil || !r.Outage {
			t.Errorf("a call that is to be admitted: %+v, %v", r, err)
		}
		if waiting, err := opened.Journal.Pending(t.Context()); err != nil || len(waiting) != 1 {
			t.Errorf("%d calls wait, %v", len(waiting), err)
		}
		if want := filepath.Join(home, "headroom", "journal.db"); opened.Journal.Path() != want {
			t.Errorf("the journal is %s, want %s", opened.Journal.Path(), want)
		}
	})
}

// A journal of an older version belongs to no ledger until one has adopted it.
func TestOldJournalIsAdopted(t *testing.T) {
	server, o := redisServer(t), options(t, t.TempDir())
	path := filepath.Join(o.State, "journal.db")
	j, err := journal.Open(t.Context(), path, "redis://other")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`INSERT INTO old_births VALUES ('headroom:{youtube/default}:page:units', 17, 18)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	with(t, "redis://"+server.Addr, o, func(opened *open.Opened) {
		if orphans, err := opened.Journal.Orphans(t.Context()); err != nil || orphans {
			t.Errorf("it was not adopted: %v", err)
		}
	})
}

func TestLockKeepsOthersOut(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	for name, address := range map[string]string{
		"memory": "memory:", "sqlite": "sqlite:" + filepath.Join(dir, "ledger.db"), "redis": "redis://" + redisServer(t).Addr,
	} {
		t.Run(name, func(t *testing.T) {
			with(t, address, options(t, state), func(one *open.Opened) {
				of := state
				if name == "redis" { // another machine
					of = t.TempDir()
				}
				with(t, address, options(t, of), func(two *open.Opened) {
					lock, err := one.Lock(t.Context(), "default/charts")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := two.Lock(t.Context(), "default/charts"); !errors.Is(err, lease.ErrHeld) {
						t.Errorf("while it is held: %v", err)
					}
					if err := lock.Unlock(); err != nil {
						t.Fatal(err)
					}
					if lock, err = two.Lock(t.Context(), "default/charts"); err != nil {
						t.Fatal(err)
					}
					if err := lock.Unlock(); err != nil {
						t.Error(err)
					}
				})
			})
		})
	}
}

func TestMemoryHasNoJournal(t *testing.T) {
	with(t, "memory:", options(t, ""), func(opened *open.Opened) {
		if err := reserve(t.Context(), opened); err != nil || opened.Journal != nil {
			t.Errorf("%v, journal %v", err, opened.Journal)
		}
	})
}

func TestStoreIsTrustedAsItIsFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ledger.db")
	for _, address := range []string{"memory:", "sqlite:" + path, "redis://" + redisServer(t).Addr} {
		store, closer, err := open.Store(t.Context(), address, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := quota.New(options(t, "").Book, store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Reserve(t.Context(), quota.Call{Method: "videos.list"}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := closer(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "journal-ledger.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store alone has a journal: %v", err)
	}
	if _, _, err := open.Store(t.Context(), "ledger.db", nil); err == nil {
		t.Error("no address is no error")
	}
}

// A folder that is missing is named, with what to type.
func TestOpenWithoutAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "no", "folder")
	_, err := open.Open(t.Context(), "sqlite:"+dir+"/ledger.db", options(t, t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), "make it: mkdir -p '"+dir+"'") {
		t.Errorf("error %v", err)
	}
}
