package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Code returns SQLite's primary code of an error, or 0.
func Code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// Busy reports whether an error says only that another connection holds the lock.
func Busy(err error) bool {
	switch Code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// Interrupted reports whether an error says that the caller's context ended a statement.
func Interrupted(err error) bool { return Code(err) == sqlite3.SQLITE_INTERRUPT }

// Damaged reports whether an error says that the file is corrupt.
func Damaged(err error) bool { return Code(err) == sqlite3.SQLITE_CORRUPT }

// Full reports whether an error says that the disk, or the share of it that a user may have, is full. SQLite reports the
// size of a -shm file as an error of the disk.
func Full(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
		return true
	}
	return Code(err) == sqlite3.SQLITE_FULL || errors.Is(err, errFull) || errors.Is(err, ErrNoRoom) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Ailing reports whether an error comes from the file or its disk, and not from a wrong path:
// damaged, full, failed, or busy for too long.
func Ailing(err error) bool {
	return Code(err) == sqlite3.SQLITE_IOERR || Damaged(err) || Busy(err) || Full(err)
}

// ReadOnly reports whether an error says that the file's disk is mounted for reading only: for a
// minute, perhaps, and not because the configuration is wrong.
func ReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// Unwritable reports whether an error may say only that a file cannot be written: by this user, on
// this disk, or because the disk is full. Perhaps it can be read.
func Unwritable(err error) bool {
	switch Code(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM:
		return true
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC)
}

// remedy returns what is wrong and what to do, or "".
func (k *Kind) remedy(err error) string {
	if Full(err) && !errors.Is(err, ErrNoRoom) { // which says so itself
		return "the disk is full; " + k.Full
	}
	if ReadOnly(err) {
		return "its file system is mounted for reading only; mount it for writing, or name its folder in ReadWritePaths= of the systemd unit"
	}
	switch Code(err) {
	case sqlite3.SQLITE_READONLY:
		return "it cannot be written; give this user the right to write the file and its directory, or mount its file system for writing"
	case sqlite3.SQLITE_CANTOPEN:
		return "it cannot be opened; give this user the right to read and write the file and its directory, or mount its file system for writing"
	case sqlite3.SQLITE_NOTADB:
		return "it is no SQLite database and was left as it is; name another file, or move this one away"
	case sqlite3.SQLITE_CORRUPT:
		return "it is damaged; " + k.Damaged
	case sqlite3.SQLITE_IOERR:
		return "the disk failed or is full; see the system's log"
	case sqlite3.SQLITE_PERM:
		return "this user may not use it"
	}
	return ""
}

// Fault returns an error of the file at path that says what was done, to which file, and
// what to do about it. It returns errors of the caller's context unchanged.
func (k *Kind) Fault(doing, path string, err error) error {
	switch err { // an error that wraps them says more
	case nil, context.Canceled, context.DeadlineExceeded: //nolint:errorlint // as they are
		return err
	}
	if code := Code(err); (code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN) && readOnly(filepath.Dir(path)) {
		err = fmt.Errorf("%w: %w", syscall.EROFS, err)
	}
	if remedy := k.remedy(err); remedy != "" {
		return fmt.Errorf("%s %s: %s: %w", doing, path, remedy, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}
