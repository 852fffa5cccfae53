//go:build !linux && !darwin

package sqlitefile

func roomIn(string) (bytes int64, known bool) { return 0, false }
