package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const codeError = sqlite3.SQLITE_ERROR

// faultCode returns SQLite's primary code of an error, or 0.
func faultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// busy reports whether an error only says that somebody else is at it.
func busy(err error) bool {
	switch faultCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// remedies say what to do, by SQLite's code.
var remedies = map[int]string{
	sqlite3.SQLITE_FULL:     "the disk is full; make room: nothing that was granted is lost",
	sqlite3.SQLITE_READONLY: "it cannot be written; give this user the right to write the file and its directory",
	sqlite3.SQLITE_CANTOPEN: "it cannot be opened; give this user the right to read and write the file and its directory",
	sqlite3.SQLITE_NOTADB:   "it is no SQLite database and was left as it is; name another file, or move this one away",
	sqlite3.SQLITE_CORRUPT:  "it is damaged; stop its users, see what PRAGMA integrity_check says, restore a backup and adjust what was spent since",
	sqlite3.SQLITE_IOERR:    "the disk failed; see the system's log",
	sqlite3.SQLITE_PERM:     "this user may not use it",
}

// fault is an error of the file: what was done, to which file, and what to do
// about it. The caller's context's errors stay as they are.
func (s *Store) fault(doing string, err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if remedy := remedies[faultCode(err)]; remedy != "" {
		return fmt.Errorf("%s %s: %s: %w", doing, s.path, remedy, err)
	}
	return fmt.Errorf("%s %s: %w", doing, s.path, err)
}
