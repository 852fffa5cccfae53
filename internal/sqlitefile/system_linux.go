package sqlitefile

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// holders names the processes that may be writing to the file at path: those that lock the
// write byte of the -shm or, before that exists, the file.
func holders(path string) string {
	lsof := "look with: lsof " + path
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return lsof
	}
	var pids []int
	for try := 0; try < 3 && len(pids) == 0; try++ { // a lock is missed if others end while the kernel lists them
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			return lsof
		}
		if pids = lockers(string(locks), inode(real+"-shm"), 120); len(pids) == 0 {
			pids = lockers(string(locks), inode(real), 1<<30)
		}
	}
	var names []string
	for _, pid := range pids {
		names = append(names, processName(pid))
	}
	if len(names) == 0 {
		return lsof
	}
	return strings.Join(names, " and ") + " may hold it"
}

func inode(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(stat.Ino, 10)
}

// lockers finds in /proc/locks the processes with a write lock on a byte of a file:
//
//	3: POSIX  ADVISORY  WRITE 4711 fd:01:131100 120 120
func lockers(locks, inode string, b int64) (pids []int) {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) != 8 || inode == "" || f[3] != "WRITE" || !strings.HasSuffix(f[5], ":"+inode) {
			continue
		}
		pid, noPid := strconv.Atoi(f[4])
		from, noFrom := strconv.ParseInt(f[6], 10, 64)
		to, noTo := strconv.ParseInt(f[7], 10, 64)
		if f[7] == "EOF" {
			to, noTo = math.MaxInt64, nil
		}
		if errors.Join(noPid, noFrom, noTo) == nil && pid > 0 && from <= b && b <= to && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func processName(pid int) string {
	if pid == os.Getpid() {
		return fmt.Sprintf("process %d (this one)", pid)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
}

// FileID identifies a file independently of its name.
type FileID struct {
	major, minor uint32
	inode        uint64
}

func (f FileID) same(g FileID) bool { return f == g }

// FileAt returns the id of the file at path. It asks for the inode only. os.Stat also asks
// for the time of the last change, and then Linux writes a more exact time at the next
// change. Before each commit that made every fsync of the -wal write the inode, and a commit
// a third slower.
func FileAt(path string) (FileID, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &st); err != nil {
		return FileID{}, err
	}
	return FileID{st.Dev_major, st.Dev_minor, st.Ino}, nil
}
