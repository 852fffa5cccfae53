// Package sqlitefile holds what this module's SQLite files share: valid paths, connections,
// schemas, waiting for a busy file, and error messages with remedies.
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
	// Name is the word for such a file, such as ledger. Messages also use it for an example
	// path, ledger.db.
	Name string
	// Application is the application_id that marks files of this kind.
	Application int64
	// Spared names the data that a power cut must not undo, for messages.
	Spared string
	// Full and Damaged say what to do if the disk is full or the file is damaged.
	Full, Damaged string
	// Pragmas are set on every connection, in addition to those of every kind.
	Pragmas []string
	// Settings are checked, in addition to those of every kind.
	Settings []Setting
}

// Create creates a missing file at path. It is empty and only its owner can read it.
// SQLite gives the -wal and -shm beside it the same mode. A file that exists stays as it
// is. SQLite itself reports why a file cannot be made.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil
	}
	return f.Close()
}

// ErrNoName says that a path names no file.
var ErrNoName = errors.New("name a file")

// Path returns the absolute path, or an error that says why no such file can be there.
// SQLite's own error says less.
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
