//go:build !linux && !darwin

package sqlitefile

// Room returns the bytes that this user may still write to a folder, or false: this system does not
// say.
func Room(string) (bytes int64, known bool) { return 0, false }

func readOnly(string) bool { return false }
