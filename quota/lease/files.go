package lease

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/headroom-quota/headroom/quota"
)

// Files locks by files in a directory, one for each name: for processes of one
// machine. The directory is made if it is missing. The operating system releases the
// lock of a process that dies. The files stay, because two processes could hold a lock
// whose file was deleted.
type Files string

func (dir Files) Lock(_ context.Context, name string) (Lock, error) {
	if dir == "" {
		return nil, quota.BadInput("lock %s: say in which folder", name)
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("lock the job: %w", err)
	}
	path := filepath.Join(string(dir), url.QueryEscape(name)+".lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the job: %w", err)
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
