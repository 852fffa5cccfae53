//go:build unix

package serve

import (
	"syscall"
)

// openFiles returns how many files this process may open; 0 is no bound. Go has raised the
// soft limit to the hard one by now, where it may.
func openFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on FreeBSD
}
