//go:build !linux

package sqlitestore

// holders says how to find out who may be writing.
func (s *Store) holders() string { return "look with: lsof " + s.path }
