package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/internal/shell"
	"github.com/headroom-quota/headroom/quota"
)

// Files locks by files in a directory, one for each name: for processes of one
// machine. The directory is made if it is missing. What root makes belongs to the owner
// of the folder around it, where systems have owners. The operating system releases the
// lock of a process that dies. The files stay, because two processes could hold a lock
// whose file was deleted.
type Files string

func (dir Files) Lock(_ context.Context, name string) (Lock, error) {
	if dir == "" {
		return nil, quota.BadInput("lock %s: say in which folder", name)
	}
	if os.Mkdir(string(dir), 0o700) == nil {
		inherit(string(dir), os.Lchown)
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("lock the job: %w", err)
	}
	path := filepath.Join(string(dir), url.QueryEscape(name)+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		inherit(path, func(_ string, uid, gid int) error { return f.Chown(uid, gid) })
	} else if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the job: %w%s", err, remedy(path, err))
	}
	if err := lockFile(f); err != nil {
		held := holder(f)
		return nil, errors.Join(lockError(path, held, err), f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the job: %w", err), f.Close())
	}
	return &fileLock{f}, nil
}

// inherit gives a new file or folder of root to the owner of its folder, as SQLite does, so that a
// service can use what root made beside its ledger. It is best effort.
func inherit(path string, chown func(path string, uid, gid int) error) {
	if uid, gid, known := owner(filepath.Dir(path)); known && os.Geteuid() == 0 {
		_ = chown(path, uid, gid)
	}
}

// remedy returns what to type if a lock may not be opened, because it or its folder has another owner
// than what is around it.
func remedy(path string, err error) string {
	dir := filepath.Dir(path)
	for _, path := range []string{path, dir} {
		is, _, known := owner(path)
		uid, gid, _ := owner(filepath.Dir(path))
		if known && is != uid && uid != 0 && errors.Is(err, fs.ErrPermission) { // root may own a folder of many
			return fmt.Sprintf("\nAs root, give it to the user of the folder: chown -R %d:%d %s", uid, gid, shell.Quote(dir))
		}
	}
	return ""
}

// holder reads who has the lock.
func holder(f *os.File) string {
	var pid int
	if _, err := fmt.Fscan(f, &pid); err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

func lockError(path, held string, err error) error {
	if errors.Is(err, errLocked) {
		return fmt.Errorf("%w: %s holds %s", ErrHeld, held, path)
	}
	return fmt.Errorf("lock %s: %w", path, err)
}

type fileLock struct{ f *os.File }

func (*fileLock) Token() int64          { return 0 }
func (*fileLock) Lost() <-chan struct{} { return nil }

// File returns the locked file. A process that inherits it keeps the lock if this one dies.
func (l *fileLock) File() *os.File { return l.f }

// Unlock gives the lock back, also if others have inherited the file.
func (l *fileLock) Unlock() error { return errors.Join(unlockFile(l.f), l.f.Close()) }
