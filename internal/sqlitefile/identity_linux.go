package sqlitefile

import "golang.org/x/sys/unix"

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
