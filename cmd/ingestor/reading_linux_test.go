package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// smallDisk mounts a disk of a size with these files.
func smallDisk(t *testing.T, size string, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("SKIPPED: cannot mount a small disk: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// state returns ledger, journal and catalog, each with what SQLite keeps beside it.
func (f *folder) state(ends ...string) map[string][]byte {
	f.t.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"ledger.db", "journal-ledger.db", "catalog.db"} {
		for _, end := range ends {
			text, err := os.ReadFile(f.path(name + end))
			if err != nil {
				f.t.Fatal(err)
			}
			all[name+end] = text
		}
	}
	return all
}

// TestReadingWithoutRoom: files on a full disk, or on a read-only one, are read. After a crash, the -wal has data that
// the file lacks.
func TestReadingWithoutRoom(t *testing.T) {
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	used, closed := f.used(), f.state("")
	s := f.serve()
	if r := f.run("quota", "adjust", "youtube/units", "7", "--reason", "a test"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	killed, shared := f.state("", "-wal"), f.state("", "-wal", "-shm")
	for name, c := range map[string]struct {
		files map[string][]byte
		used  int64
		flags uintptr
	}{
		"closed_full":      {closed, used, 0},
		"closed_read-only": {closed, used, syscall.MS_RDONLY},
		"killed_full":      {killed, used + 7, 0},
		"shared_read-only": {shared, used + 7, syscall.MS_RDONLY},
		"killed_read-only": {killed, used + 7, syscall.MS_RDONLY},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "2m", c.files)
			if err := os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 4<<20), 0o600); err == nil {
				t.Fatal("the disk is not full")
			}
			if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|c.flags, "size=2m"); err != nil {
				t.Fatal(err)
			}
			at := []string{"--ledger", "sqlite:" + filepath.Join(dir, "ledger.db"), "--catalog", filepath.Join(dir, "catalog.db")}
			for _, reader := range append(readers, reader{"catalog", []string{"doctor"}}, readers[0]) { // the second time, beside what a full disk left of the first
				if reader.args[0] == "check" { // which says more
					continue
				}
				r := f.run(append(at, reader.args...)...)
				if r.code != console.ExitDone || !strings.Contains(r.stdout+r.stderr, "cannot be written") {
					t.Errorf("%q: %d %s%s", reader.args, r.code, r.stdout, r.stderr)
				}
			}
			if r := f.run(append(at, "plan")...); r.code != console.ExitDone && r.code != console.ExitDeferred || !strings.Contains(r.stdout, "youtube/units") {
				t.Errorf("plan: %d %s%s", r.code, r.stdout, r.stderr)
			}
			if used, _ := unitsOf(t, f.run(append(at, "quota", "--output", "json")...).stdout); used != c.used {
				t.Errorf("%d units are used, want %d", used, c.used)
			}
			for name, text := range c.files {
				if now, err := os.ReadFile(filepath.Join(dir, name)); !strings.HasSuffix(name, "-shm") && (err != nil || !cmp.Equal(text, now)) {
					t.Errorf("%s was changed (%v)", name, err)
				}
			}
		})
	}
}

// TestNoRoomForACopy: the disk has room to change the ledger, but not the catalog, so neither is changed: an older
// program would refuse the one that was. Commands that read say so before, also where the disk is for reading only.
func TestNoRoomForACopy(t *testing.T) {
	f := newFolder(t, 1000, "")
	if r := f.run("run", "--once"); r.code != console.ExitDone {
		t.Fatalf("%d %s", r.code, r.stderr)
	}
	f.age()
	files := f.state("")
	dir := smallDisk(t, "8m", files)
	room, _ := sqlitefile.Room(dir)
	left := 2*len(files["ledger.db"]) + 2*len(files["catalog.db"]) - 100<<10
	if err := os.WriteFile(filepath.Join(dir, "rest"), make([]byte, int(room)-left), 0o600); err != nil {
		t.Fatal(err)
	}
	at := []string{"--ledger", "sqlite:" + filepath.Join(dir, "ledger.db"), "--catalog", filepath.Join(dir, "catalog.db")}
	foresees := func(code int, why string) {
		t.Helper()
		for _, args := range [][]string{{"check"}, {"quota"}} {
			r := f.run(append(args, at...)...)
			if said := r.stdout + r.stderr; args[0] == "check" && r.code != code || !strings.Contains(said, why) || !strings.Contains(said, "Stopped: ") || strings.Contains(said, "can start") {
				t.Errorf("%q: %d %s%s", args, r.code, r.stdout, r.stderr)
			}
		}
	}
	foresees(console.ExitFailed, "the disk is too full to change the schema")
	for _, args := range [][]string{{"run", "--once"}, {"serve", "--listen", "127.0.0.1:0"}} {
		r := f.run(append(args, at...)...)
		if r.code != console.ExitFailed || !strings.Contains(r.stderr, "the files in "+dir+": a copy of each is kept first, which needs 1 MB more") {
			t.Errorf("%q: %d %s%s", args, r.code, r.stdout, r.stderr)
		}
		now, err := os.ReadDir(dir)
		if err != nil || len(now) != len(files)+1 {
			t.Errorf("%q: there are now %v, %v", args, now, err)
		}
		for name, text := range files {
			if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !cmp.Equal(text, now) {
				t.Errorf("%q: %s was changed (%v)", args, name, err)
			}
		}
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=8m"); err != nil {
		t.Fatal(err)
	}
	foresees(console.ExitDown, "mounted for reading only")
}
