package sqlitefile

import (
	"errors"
	"fmt"
	"path/filepath"

	sqlite3 "modernc.org/sqlite/lib"
)

// errFull says that the disk has no room for a transaction.
var errFull = errors.New("no room for a transaction")

// oneTransaction is room for a small one.
const oneTransaction = 64 << 10

// TryWrite tries to write, in a transaction of the writer, and changes nothing. A page may fit where a
// transaction does not, so the disk must have room for that, too; if not, full says so, and what is in the
// transaction may still fit.
func (f *File) TryWrite() (broken, full error) {
	schema, err := f.Writer.Number("PRAGMA user_version")
	if err == nil {
		err = f.Writer.Script(fmt.Sprintf("PRAGMA user_version = %d", schema))
	}
	if left, known := Room(filepath.Dir(f.Path)); err == nil && known && left < oneTransaction {
		full = f.Fault("write to", errFull)
	}
	return f.Fault("write to", err), full
}

// code is [Code], which has none for a disk that was found full.
func code(err error) int {
	if errors.Is(err, errFull) {
		return sqlite3.SQLITE_FULL
	}
	return Code(err)
}
