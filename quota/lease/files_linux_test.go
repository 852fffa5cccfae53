package lease_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headroom-quota/headroom/quota/lease"
)

const nobody = 65534

// ownedFolder is a folder of nobody, which root can make.
func ownedFolder(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make the file of somebody else")
	}
	dir, err := os.MkdirTemp("", "lease") // others cannot read t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asNobody calls f on a thread that has the rights of nobody.
func asNobody(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		_, _ = unix.SetfsuidRetUid(nobody)
		f()
	}()
	<-done
}

// What root makes in the folder of a service, the service can use.
func TestRootMakesLocksForTheOwnerOfTheFolder(t *testing.T) {
	dir := lease.Files(filepath.Join(ownedFolder(t), "locks"))
	for range 2 {
		lock, err := dir.Lock(t.Context(), "default/job")
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		asNobody(func() {
			lock, err := dir.Lock(t.Context(), "default/job")
			if err != nil {
				t.Errorf("nobody cannot lock what root has made: %v", err)
				return
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file that is there stays whose it is: root does not give away what a link leads to.
func TestRootGivesNoOldFileAway(t *testing.T) {
	dir := ownedFolder(t)
	path := filepath.Join(t.TempDir(), "old")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "job.lock")); err != nil {
		t.Fatal(err)
	}
	lock, err := lease.Files(dir).Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil || is.Uid != 0 {
		t.Errorf("it is now of %d: %v", is.Uid, err)
	}
}

func TestALockOfAnotherUserNamesTheCommand(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "job.lock"), nil, 0o600)
		},
		"a folder": func(dir string) error { return os.Chown(dir, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(ownedFolder(t), "locks")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("permission denied\nAs root, give it to the user of the folder: chown -R %d:%[1]d %s", nobody, dir)
			asNobody(func() {
				if _, err := lease.Files(dir).Lock(t.Context(), "job"); err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			})
		})
	}
}
