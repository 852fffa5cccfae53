//go:build !linux

package sqlitefile

// holders says how to find the processes that may be writing to the file at path.
func holders(path string) string { return "look with: lsof " + path }
