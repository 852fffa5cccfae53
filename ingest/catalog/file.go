package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// checkPath returns the path whole, or says why no catalog can be there. SQLite
// says the same in fewer words.
func checkPath(path string) (string, error) {
	if path == "" || strings.HasPrefix(path, ":memory:") || strings.HasPrefix(path, "file:") {
		return "", fmt.Errorf("open catalog %q: name a file", path)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("open catalog: %w", err)
	}
	if info, err := os.Stat(whole); err == nil && info.IsDir() {
		return "", fmt.Errorf("open %s: it is a directory; name a file in it, such as %s", whole, filepath.Join(whole, "catalog.db"))
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

// code returns SQLite's primary code of an error, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// busy reports whether an error only says that somebody else is at it.
func busy(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// remedies say what to do, by SQLite's code.
var remedies = map[int]string{
	sqlite3.SQLITE_FULL:     "the disk is full; make room, and the next run goes on where this one stopped",
	sqlite3.SQLITE_READONLY: "it cannot be written; give this user the right to write the file and its directory",
	sqlite3.SQLITE_CANTOPEN: "it cannot be opened; give this user the right to read and write the file and its directory",
	sqlite3.SQLITE_NOTADB:   "it is no SQLite database and was left as it is; name another file, or move this one away",
	sqlite3.SQLITE_CORRUPT:  "it is damaged; look with doctor, or move it away and fetch anew",
	sqlite3.SQLITE_IOERR:    "the disk failed; see the system's log",
	sqlite3.SQLITE_PERM:     "this user may not use it",
}

// fault is an error of the file: what was done, to which file, and what to do
// about it. The caller's context's errors stay as they are.
func (c *Catalog) fault(doing string, err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if remedy := remedies[code(err)]; remedy != "" {
		return fmt.Errorf("%s %s: %s: %w", doing, c.path, remedy, err)
	}
	return fmt.Errorf("%s %s: %w", doing, c.path, err)
}
