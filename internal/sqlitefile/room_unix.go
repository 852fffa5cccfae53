//go:build linux || darwin

package sqlitefile

import (
	"os"
	"syscall"
)

// Room returns the bytes that this user may still write to a folder, or false if the system does
// not say. Root may use what disks hold back for it.
func Room(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	if os.Geteuid() == 0 {
		s.Bavail = s.Bfree
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:gosec,unconvert // no disk has 8 EiB; Bsize has another type on macOS
}

// readOnly reports whether a folder is on a file system that is mounted for reading only.
func readOnly(dir string) bool {
	const rdonly = 1 // ST_RDONLY of Linux, MNT_RDONLY of macOS
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Flags&rdonly != 0
}
