package lease_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/lease"
)

func TestFiles(t *testing.T) {
	dir := lease.Files(filepath.Join(t.TempDir(), "locks")) // it is made
	lock, err := dir.Lock(t.Context(), "default/a b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Lock(t.Context(), "default/a b"); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("while it is held: %v", err)
	}
	if other, err := dir.Lock(t.Context(), "default/a"); err != nil {
		t.Errorf("another name: %v", err)
	} else if err := other.Unlock(); err != nil {
		t.Error(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if lock, err = dir.Lock(t.Context(), "default/a b"); err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	if all, err := os.ReadDir(string(dir)); err != nil || len(all) != 2 {
		t.Errorf("%v, %v; the files stay, one for each name", all, err)
	}
}

func TestFilesWithoutAFolder(t *testing.T) {
	if _, err := lease.Files("").Lock(t.Context(), "a"); !errors.Is(err, quota.ErrBadInput) {
		t.Errorf("a lock without a folder: %v", err)
	}
}
