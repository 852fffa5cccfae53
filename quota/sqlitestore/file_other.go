//go:build !linux

package sqlitestore

import "os"

// fileID is a file, whatever its name.
type fileID struct{ info os.FileInfo }

func (f fileID) same(g fileID) bool { return os.SameFile(f.info, g.info) }

// fileAt returns what is at path.
func fileAt(path string) (fileID, error) {
	info, err := os.Stat(path)
	return fileID{info}, err
}
