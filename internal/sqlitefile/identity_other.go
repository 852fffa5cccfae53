//go:build !linux

package sqlitefile

import "os"

// FileID is a file, whatever its name.
type FileID struct{ info os.FileInfo }

func (f FileID) same(g FileID) bool { return os.SameFile(f.info, g.info) }

// FileAt returns what is at path.
func FileAt(path string) (FileID, error) {
	info, err := os.Stat(path)
	return FileID{info}, err
}
