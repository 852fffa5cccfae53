// Package sqlitefile opens, migrates and uses the SQLite files of this module. A [Kind]
// describes files of one purpose, a [File] is an open file, and a [Session] is a connection
// that runs transactions. The package also waits for busy files, detects files that were
// replaced, and says in an error what to do.
package sqlitefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Kind is a kind of file, such as a ledger.
type Kind struct {
	// Name is the name of such a file: a ledger. An example file is ledger.db.
	Name string
	// Application is the application_id that marks files of this kind.
	Application int64
	// Spared names the data that must survive a power cut: "what is granted".
	Spared string
	// Full and Damaged say what to do if the disk is full or the file is damaged.
	Full, Damaged string
	// Steps are the steps of the schema. Statements are the statements of sessions.
	Steps      []string
	Statements map[string]string
	// Pragmas are set on every connection, after those that all kinds share.
	Pragmas []string
	// Settings are read back, after those that all kinds share.
	Settings []Setting
}

// Create creates an empty file at path, which only its owner can read. SQLite gives the
// -wal and -shm beside it the same mode. An existing file stays unchanged. If Create fails,
// SQLite reports the reason when it opens the file.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	return f.Close()
}

// ErrNoName says that a path names no file.
var ErrNoName = errors.New("name a file")

// Path returns the absolute path, or an error that says why no file can be there. SQLite's
// own error says less.
func (k *Kind) Path(path string) (string, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") {
		return "", fmt.Errorf("open %s %q: %w", k.Name, path, ErrNoName)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", k.Name, err)
	}
	if info, err := os.Stat(whole); err == nil && info.IsDir() {
		return "", fmt.Errorf("open %s: it is a directory; name a file in it, such as %s", whole, filepath.Join(whole, k.Name+".db"))
	}
	dir := filepath.Dir(whole)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("open %s: there is no directory %s; make it: mkdir -p '%s'", whole, dir, dir)
	case err != nil:
		return "", fmt.Errorf("open %s: %w", whole, err)
	case !info.IsDir():
		return "", fmt.Errorf("open %s: %s is a file, not a directory", whole, dir)
	}
	return whole, nil
}
