package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
	"github.com/headroom-quota/headroom/internal/testing/filetest"
)

type reader struct {
	file string
	args []string
}

// readers are the commands that only read, with the file that they read.
var readers = []reader{
	{"ledger", []string{"quota"}},
	{"ledger", []string{"quota", "spend"}},
	{"ledger", []string{"limits", "list"}},
	{"catalog", []string{"runs"}},
	{"catalog", []string{"regions"}},
	{"catalog", []string{"trending", "US"}},
	{"catalog", []string{"search", "a"}},
	{"catalog", []string{"state", "show"}},
	{"ledger", []string{"check"}},
}

// contents are the files of the folder, with their sums.
func (f *folder) contents() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, f.dir)] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// age gives ledger and catalog the schema that the version before had.
func (f *folder) age() {
	f.t.Helper()
	for file, steps := range map[string][]string{
		"ledger.db": {
			"ALTER TABLE limits DROP COLUMN headroom", "ALTER TABLE limits DROP COLUMN headroom_of", "ALTER TABLE limit_changes DROP COLUMN headroom",
			"ALTER TABLE limits DROP COLUMN ends", "ALTER TABLE limits DROP COLUMN ends_of", "ALTER TABLE limit_changes DROP COLUMN ends",
			"DROP TABLE notes", "PRAGMA user_version = 8",
		},
		"catalog.db": {
			"DROP TABLE slates", "DROP TABLE refusals", "DROP TABLE pool_days", "DROP TABLE actions",
			"ALTER TABLE run_work DROP COLUMN cause", "ALTER TABLE run_work DROP COLUMN pool", "ALTER TABLE run_work DROP COLUMN refused", "ALTER TABLE run_work DROP COLUMN charges", "PRAGMA user_version = 3",
		},
	} {
		filetest.Files{Kind: &sqlitefile.Kind{Name: "old"}}.Spoil(f.t, f.path(file), steps...)
	}
}

// TestReadingChangesNothing: a command that reads changes no schema, and says so. A command that
// writes keeps a copy first, and the counts stay.
func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	used := f.used()
	f.age()
	before := f.contents()
	for _, reader := range append([]reader{{"ledger", []string{"plan"}}, {"catalog", []string{"plan"}}, {"catalog", []string{"doctor"}}}, readers...) {
		r := f.run(reader.args...)
		if r.code != console.ExitDone || !strings.Contains(r.stdout+r.stderr, "the "+reader.file+" "+f.path(reader.file+".db")+" has the older schema") {
			t.Errorf("%q: %d %s%s", reader.args, r.code, r.stdout, r.stderr)
		}
		if diff := cmp.Diff(before, f.contents()); diff != "" {
			t.Fatalf("%q (-before +after):\n%s", reader.args, diff)
		}
	}
	if now := f.used(); used == 0 || now != used {
		t.Errorf("the copy has %d units, want %d", now, used)
	}
	r := f.run("run", "--once")
	if r.code != console.ExitDone || strings.Count(r.stderr, "kept") != 2 {
		t.Errorf("%d %s", r.code, r.stderr)
	}
	after := f.contents()
	copies := 0
	for name := range after {
		if strings.Contains(name, ".schema-") {
			copies++
		}
	}
	if copies != 2 {
		t.Errorf("%d copies are kept, want 2: %v", copies, after)
	}
	if now := f.used(); now < used {
		t.Errorf("%d units are used, and %d were before", now, used)
	}
}

// TestReadingMakesNothing: where there is no ledger, a command that reads it says where it looked.
func TestReadingMakesNothing(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	before := f.contents()
	for _, reader := range readers {
		if reader.file != "ledger" {
			continue
		}
		r := f.run(reader.args...)
		if r.code != console.ExitDone || !strings.Contains(r.stdout+r.stderr, "there is no ledger at "+f.path("ledger.db")) {
			t.Errorf("%q: %d %s%s", reader.args, r.code, r.stdout, r.stderr)
		}
		if diff := cmp.Diff(before, f.contents()); diff != "" {
			t.Fatalf("%q (-before +after):\n%s", reader.args, diff)
		}
	}
}

// TestReadingWithoutTheRightToWrite: files that this user can only read are read.
func TestReadingWithoutTheRightToWrite(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	used := f.used()
	for path := range f.contents() {
		if err := os.Chmod(f.path(path), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(f.dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(f.dir, 0o755) }) //nolint:gosec // to delete it
	before := f.contents()
	run := func(args ...string) result {
		cmd := f.program(t.Context(), args...)
		if os.Getuid() == 0 { // who may write all the same
			drop, err := exec.LookPath("setpriv")
			if err != nil {
				t.Skip("SKIPPED: root without its rights needs setpriv of util-linux")
			}
			cmd.Args = append([]string{drop, "--bounding-set=-dac_override", "--inh-caps=-dac_override", cmd.Path}, cmd.Args[1:]...)
			cmd.Path = drop
		}
		return finish(t, cmd)
	}
	for _, reader := range readers {
		r := run(reader.args...)
		want := console.ExitDone
		if reader.args[0] == "check" {
			want = console.ExitConfig
		}
		if r.code != want || !strings.Contains(r.stdout+r.stderr, "cannot be written") {
			t.Errorf("%q: %d %s%s", reader.args, r.code, r.stdout, r.stderr)
		}
		if diff := cmp.Diff(before, f.contents()); diff != "" {
			t.Fatalf("%q (-before +after):\n%s", reader.args, diff)
		}
	}
	if now, _ := unitsOf(t, run("quota", "--output", "json").stdout); used == 0 || now != used {
		t.Errorf("the copy has %d units, want %d", now, used)
	}
}

// TestReadingBesideAWriter: a process that holds both files keeps nobody from reading them. Check says who it may be, and
// fails.
func TestReadingBesideAWriter(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	used := f.used()
	for _, file := range []string{"ledger.db", "catalog.db"} {
		s, err := sqlitefile.Raw(t.Context(), f.path(file), url.Values{"mode": {"rw"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	for _, reader := range append([]reader{{"catalog", []string{"doctor"}}}, readers...) {
		r := f.run(reader.args...)
		want := console.ExitDone
		if reader.args[0] == "check" {
			want = console.ExitDown
		}
		if said := r.stdout + r.stderr; r.code != want || !strings.Contains(said, f.path(reader.file+".db")+": it was busy for ") || strings.Contains(said, "Stopped") {
			t.Errorf("%q: %d %s%s", reader.args, r.code, r.stdout, r.stderr)
		}
	}
	if now := f.used(); used == 0 || now != used {
		t.Errorf("the copy has %d units, want %d", now, used)
	}
}

// unitsOf returns how many units of the upstream are used, and how many may be, by what quota
// printed.
func unitsOf(t *testing.T, text string) (used, limit int64) {
	t.Helper()
	var is verdict.Standing
	if err := json.Unmarshal([]byte(text), &is); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, p := range is.Pools {
		if p.Pool == "youtube/units" {
			return p.Windows[0].Used, p.Windows[0].Limit
		}
	}
	t.Fatalf("there is no pool in %s", text)
	return 0, 0
}

// TestQuotaOfTheService: a user without a ledger is shown that of the service, by its socket.
func TestQuotaOfTheService(t *testing.T) {
	t.Parallel()
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	theirs := f.run("quota", "--output", "json").stdout
	at := f.path("quota.sock")
	f.env = append(f.env, "INGESTOR_SOCKET="+at)
	ask := func(env ...string) result {
		home := t.TempDir()
		cmd := f.program(t.Context())
		cmd = exec.CommandContext(t.Context(), cmd.Path, "quota", "--output", "json")
		cmd.Dir, cmd.Env = home, append([]string{"XDG_STATE_HOME=" + home, "HOME=" + home, "INGESTOR_SOCKET=" + at}, env...)
		r := finish(t, cmd)
		if made, err := os.ReadDir(home); err != nil || len(made) > 0 {
			t.Errorf("it has made %v, %v", made, err)
		}
		return r
	}
	if r := ask(); r.code != console.ExitDone || !strings.Contains(r.stderr, "there is no ledger at ") {
		t.Errorf("without a service: %d %s", r.code, r.stderr)
	}
	s := f.serve()
	wantUsed, wantLimit := unitsOf(t, theirs)
	if r := ask(); r.code != console.ExitDone {
		t.Errorf("%d %s", r.code, r.stderr)
	} else if used, limit := unitsOf(t, r.stdout); used != wantUsed || limit != wantLimit || used == 0 {
		t.Errorf("%d of %d, want %d of %d", used, limit, wantUsed, wantLimit)
	} else if !strings.Contains(r.stdout, `"word": "Not started"`) {
		t.Errorf("there is no verdict in %s", r.stdout)
	}
	if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket has the mode %s, %v", info.Mode(), err)
	}
	if r := f.run("serve", "--listen", "127.0.0.1:0"); r.code == console.ExitDone || !strings.Contains(r.stderr, "another server answers") {
		t.Errorf("a second server: %d %s", r.code, r.stderr)
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	if r := ask(); r.code != console.ExitDown || !strings.Contains(r.stderr, "systemctl start ingestor-serve") {
		t.Errorf("after the server was killed: %d %s", r.code, r.stderr)
	}
	f.serve() // takes the place of the killed one
	if r := ask(); r.code != console.ExitDone {
		t.Errorf("after a new start: %d %s", r.code, r.stderr)
	}
}
