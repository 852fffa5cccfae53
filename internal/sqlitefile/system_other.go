//go:build !linux

package sqlitefile

import (
	"os"
)

// holders says how to find the processes that may be writing to the file at path.
func holders(path string) string { return "look with: lsof " + path }

// FileID identifies a file independently of its name.
type FileID struct{ info os.FileInfo }

func (f FileID) same(g FileID) bool { return os.SameFile(f.info, g.info) }

// FileAt returns the id of the file at path.
func FileAt(path string) (FileID, error) {
	info, err := os.Stat(path)
	return FileID{info}, err
}
