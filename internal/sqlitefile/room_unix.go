//go:build linux || darwin

package sqlitefile

import "syscall"

// Room returns the bytes that this user may still write to a folder, or false if the system does
// not say.
func Room(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:gosec,unconvert // no disk has 8 EiB; Bsize has another type on macOS
}
