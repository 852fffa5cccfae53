// Package sqlitefile is what the files of SQLite that this module keeps have in
// common: where one may be, how it is connected to, how it comes by its schema, how
// a busy one is waited for, and what people are told when something is wrong with
// one.
package sqlitefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Kind is a kind of file, such as the ledgers.
type Kind struct {
	// Name is what people call such a file: a ledger. It is also the name of an
	// example, ledger.db.
	Name string
	// Application marks a file as one of this kind, as its application_id.
	Application int64
	// Spared is what a power cut must not undo: "what is granted".
	Spared string
	// Full and Damaged are what to do when the disk is full, and when the file is
	// damaged.
	Full, Damaged string
	// Steps are the steps of the schema, and Statements those that sessions prepare.
	Steps      []string
	Statements Statements
	// Pragmas are set on every connection, beside those of every file.
	Pragmas []string
	// Settings are read back, beside those of every file.
	Settings []Setting
}

// Create makes an empty file at path if there is none, which only its owner can read.
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

// Path returns the path whole, or says why no such file can be there. SQLite says
// the same in fewer words.
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
