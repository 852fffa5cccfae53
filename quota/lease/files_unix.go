//go:build unix

package lease

import (
	"os"

	"golang.org/x/sys/unix"
)

var errLocked = error(unix.EWOULDBLOCK)

func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func unlockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// owner returns whose a file is, if the system says so.
func owner(path string) (uid, gid int, known bool) {
	var s unix.Stat_t
	err := unix.Stat(path, &s)
	return int(s.Uid), int(s.Gid), err == nil
}
