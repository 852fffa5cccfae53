//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

// ordinary is the user that runs PostgreSQL when the tests run as root, or nil.
var ordinary = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
})

// own gives a folder to the user that runs PostgreSQL.
func own(dir string) error {
	as, err := ordinary()
	if as == nil {
		return err
	}
	return os.Chown(dir, int(as.Uid), int(as.Gid))
}

// owner makes a command run as that user.
func owner() *syscall.SysProcAttr {
	as, _ := ordinary() // own returned the error
	return &syscall.SysProcAttr{Credential: as}
}
